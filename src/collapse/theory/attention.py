"""Effect of one attention sublayer on token similarity at initialization (Section 3.1, Appendices C.1 to C.3).

Arguments of all functions broadcast against each other; results are float64.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import digamma

from collapse.theory.domain import Values, positive, whole, within


class SquaredNorms(NamedTuple):
    """Expected squared Frobenius norms of a sublayer's output Y."""

    projected: Values
    """E ||Pi Y||_F^2, for the mean row repeated n times."""
    total: Values
    """E ||Y||_F^2."""


def prefix_average(n: int) -> Values:
    """C_n, the attention matrix with uniform weights over each causal prefix: (n, n), 1/i for j <= i (Assumption C.2).

    Raises:
        ValueError: if n is not an integer >= 1.
    """
    size = int(whole("n", n, 1))
    return np.tri(size) / np.arange(1.0, size + 1)[:, None]


def harmonic_number(n: ArrayLike) -> Values:
    """H_n, the sum of 1/k for k = 1, ..., n (Theorem 3.2).

    Raises:
        ValueError: if n is not an integer >= 1.
    """
    return np.asarray(digamma(whole("n", n, 1) + 1) + np.euler_gamma)[()]


def token_correlation(t: ArrayLike, n: ArrayLike) -> Values:
    """rho(t) = (n t - 1)/(n - 1), the common correlation of two tokens in R_eq(t) (Assumption 3.1).

    Exactly 0 at t = 1/n and exactly 1 at t = 1.

    Args:
        t: Token similarity, in [0, 1]. The paper states its results for t >= 1/n. For smaller t the tokens are
            negatively correlated, and R_eq(t) is still a Gram matrix.
        n: Sequence length, at least 2.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    t, n = within("t", t, 0, 1), whole("n", n, 2)
    return np.where(t < 0.5, n * (t - 1 / n) / (n - 1), 1 - n * (1 - t) / (n - 1))[()]


def f1(t: ArrayLike, n: ArrayLike) -> Values:
    """f1(t) = (1 - t)(n - H_n)(n t + 1)/(n (n - 1)): growth of t for a small amount of attention (Theorem 3.2).

    Arguments and errors: see `token_correlation`.
    """
    t, n = within("t", t, 0, 1), whole("n", n, 2)
    return (1 - t) * (n - harmonic_number(n)) * (n * t + 1) / (n * (n - 1))


def f2(t: ArrayLike, n: ArrayLike) -> Values:
    """f2(t) = ((n - H_n) t + H_n - 1)/(n - 1): E ||Y_1||_F^2 is (1 + s f2) ||X_1||_F^2 (Theorem 3.2).

    Arguments and errors: see `token_correlation`.
    """
    t, n = within("t", t, 0, 1), whole("n", n, 2)
    h = harmonic_number(n)
    return ((n - h) * t + (h - 1)) / (n - 1)


def folded_variance(width: ArrayLike, value_variance: ArrayLike, output_variance: ArrayLike) -> Values:
    """sigma_W^2 = d sigma_V^2 sigma_O^2, variance of an entry of W = W_V W_O (Section 2).

    Args:
        width: Model width d.
        value_variance: Variance of an entry of W_V, 1/(3 d) at standard initialization.
        output_variance: Variance of an entry of W_O, 1/(3 d) at standard initialization.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    return (
        whole("width", width, 1)
        * within("value_variance", value_variance, 0)
        * within("output_variance", output_variance, 0)
    )


def amount_of_attention(width: ArrayLike, weight_variance: ArrayLike, mean_square: ArrayLike = 1.0) -> Values:
    """s = n d^2 sigma_W^2/||X_1||_F^2, the amount of attention added to the residual (Theorem 3.2).

    Args:
        width: Model width d.
        weight_variance: sigma_W^2, see `folded_variance`.
        mean_square: Mean square entry of X_1, ||X_1||_F^2/(n d): 1 under Post-Norm, so that s = d sigma_W^2, which is
            1/9 at standard initialization; it grows with depth under Pre-Norm.

    Raises:
        ValueError: if an argument is outside its domain, or `mean_square` is 0.
    """
    return (
        whole("width", width, 1) * within("weight_variance", weight_variance, 0) / positive("mean_square", mean_square)
    )


def attention_increment(s: ArrayLike, t: ArrayLike, n: ArrayLike, deescalation: ArrayLike = 0.0) -> Values:
    """Delta_attn(s, t) = s f1/(1 + s f2): change of token similarity by attention (Theorem 3.2, Corollary 3.3).

    Args:
        s: Amount of attention, at least 0, see `amount_of_attention`.
        t: Token similarity of X_1, in [0, 1].
        n: Sequence length, at least 2.
        deescalation: a in [0, 1]: P - a C_n replaces P, so (1 - a)^2 s replaces s.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    s = (1 - within("deescalation", deescalation, 0, 1)) ** 2 * within("s", s, 0)
    return s * f1(t, n) / (1 + s * f2(t, n))


def attention_expectations(
    t: ArrayLike, n: ArrayLike, width: ArrayLike, weight_variance: ArrayLike, deescalation: ArrayLike = 0.0
) -> SquaredNorms:
    """E ||Pi Y_1||_F^2 and E ||Y_1||_F^2 over W, for P = C_n and the Gram matrix R_eq(t) (Theorem C.3).

    With `deescalation`, these are the expectations in the proof of Corollary 3.3. The paper prints the factor
    d sigma_W^2 there instead of d^2 sigma_W^2, as in Theorem C.3 (docs/theory.md, erratum).

    Args:
        t: Token similarity of X_1, in [0, 1]; the rows of X_1 have squared norm d.
        n: Sequence length, at least 2.
        width: Model width d.
        weight_variance: sigma_W^2, see `folded_variance`.
        deescalation: a in [0, 1]: (1 - a) C_n replaces C_n.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    rho, t, n, d = token_correlation(t, n), within("t", t, 0, 1), whole("n", n, 2), whole("width", width, 1)
    independent = n * (1 - t) / (n - 1)  # 1 - rho
    h = harmonic_number(n)
    branch = (
        (1 - within("deescalation", deescalation, 0, 1)) ** 2 * d**2 * within("weight_variance", weight_variance, 0)
    )
    return SquaredNorms(
        projected=n * d * t + branch * (rho * n + independent * (2 - h / n)),
        total=n * d + branch * (rho * n + independent * h),
    )
