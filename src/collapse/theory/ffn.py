"""Effect of one SwiGLU sublayer on token similarity at initialization (Theorem 3.4, Appendix C.4)."""

import numpy as np
from numpy.typing import ArrayLike

from collapse.theory.attention import token_correlation
from collapse.theory.domain import Values, positive, whole, within

MAX_VARIANCE = 1000.0
"""Largest variance of a pre-activation in `swiglu_moment`; the number of its terms grows in proportion."""


def swiglu_moment(rho: ArrayLike, preact_variance: ArrayLike) -> Values:
    """m(rho) = E[SiLU(u) SiLU(v)] of two normal variables (Theorem 3.4), with an error below 1e-10.

    Mehler's formula gives m(rho) as the sum of c_k^2 rho^k, with coefficients c_k of z -> SiLU(sigma z) in normalized
    Hermite polynomials. The odd part of SiLU(x) = x/2 + (x/2) tanh(x/2) has only c_1 = sigma/2. The coefficients of the
    even part fall like exp(-pi sqrt(k)/sigma), because its poles nearest to the real line are at +-i pi. For the same
    reason, the trapezoidal rule integrates them to rounding error. All terms are squares, so m increases on [0, 1] for
    every variance, also in floating point.

    Args:
        rho: Correlation of u and v, in [-1, 1].
        preact_variance: Variance sigma^2 = d sigma_W1^2 of u and of v, 1/3 at standard initialization; from 0 to 1000.
            Broadcasts against `rho`.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    rho, variance = within("rho", rho, -1, 1), within("preact_variance", preact_variance, 0, MAX_VARIANCE)
    squares, rest = _even_part(variance)
    moment = rest
    for k in reversed(range(squares.shape[-1])):
        moment = moment * rho**2 + squares[..., k]
    return moment + variance / 4 * rho


def swiglu_coefficient(
    width: ArrayLike,
    ffn_width: ArrayLike,
    up_variance: ArrayLike,
    down_variance: ArrayLike,
    mean_square: ArrayLike = 1.0,
) -> Values:
    """xi = d d_ff sigma_W2^2 sigma_W3^2, the counterpart of the amount of attention (Theorem 3.4).

    Args:
        width: Model width d.
        ffn_width: Hidden width d_ff.
        up_variance: Variance of an entry of W_3, 1/(3 d) at standard initialization.
        down_variance: Variance of an entry of W_2, 1/(3 d_ff) at standard initialization.
        mean_square: Mean square entry of the residual X_2, ||X_2||_F^2/(n d): 1 under Post-Norm, so that xi is 1/9
            at standard initialization. Under Pre-Norm the theorem divides xi by it, like s in Theorem 3.2.

    Raises:
        ValueError: if an argument is outside its domain, or `mean_square` is 0.
    """
    return (
        whole("width", width, 1)
        * whole("ffn_width", ffn_width, 1)
        * within("up_variance", up_variance, 0)
        * within("down_variance", down_variance, 0)
        / positive("mean_square", mean_square)
    )


def ffn_increment(xi: ArrayLike, t: ArrayLike, n: ArrayLike, preact_variance: ArrayLike) -> Values:
    """Delta_FFN = xi (t - 1/n)(m(rho) - m(1))/(1 + xi m(1)): change of token similarity by SwiGLU (Theorem 3.4).

    It is 0 at t = 1/n and t = 1, and negative between them.

    Args:
        xi: At least 0, see `swiglu_coefficient`.
        t: Token similarity of X_2, in [0, 1].
        n: Sequence length, at least 2.
        preact_variance: d sigma_W1^2, see `swiglu_moment`.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    xi, rho = within("xi", xi, 0), token_correlation(t, n)
    t, n = within("t", t, 0, 1), whole("n", n, 2)
    largest = swiglu_moment(1.0, preact_variance)
    return (t - 1 / n) * (swiglu_moment(rho, preact_variance) - largest) * (xi / (1 + xi * largest))


def _even_part(variance: Values) -> tuple[Values, Values]:
    """Squared coefficients c_0^2, c_2^2, ... of the even part of SiLU, (..., terms), and the omitted sum, (...)."""
    largest = variance.max(initial=0.0)
    terms = 16 + int(10 * largest)  # Omits less than 1e-11 of the sum at any variance.
    step = min(0.36, 0.37 / np.sqrt(max(largest, 1.0)))
    z = np.arange(0, 12, step)
    half = np.sqrt(variance)[..., None] * z / 2
    even = half * np.tanh(half)
    # Each factor gets the square root of the weight 2 step phi(z); the 2 accounts for -z.
    root = np.sqrt(2 * step) * np.exp(-(z**2) / 4) / (2 * np.pi) ** 0.25
    root[0] /= np.sqrt(2)
    polynomials = np.empty((terms, len(z)))
    current, following = root, z * root
    for k in range(2 * terms):
        if k % 2 == 0:
            polynomials[k // 2] = current
        current, following = following, (z * following - np.sqrt(k + 1) * current) / np.sqrt(k + 2)
    weighted = even * root
    squares = (weighted @ polynomials.T) ** 2
    rest = np.maximum((weighted**2).sum(-1) - squares.sum(-1), 0)
    return squares, rest
