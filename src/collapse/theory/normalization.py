"""Row norms of the outputs of sublayers, and the effect of RMSNorm on token similarity (Appendix C.5)."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from collapse.theory.attention import token_correlation
from collapse.theory.domain import Values, whole, within
from collapse.theory.ffn import swiglu_coefficient, swiglu_moment


class SimilarityBounds(NamedTuple):
    """Bounds on the token similarity of a normalized sequence."""

    lower: Values
    upper: Values


def attention_row_norm(
    position: ArrayLike, t: ArrayLike, n: ArrayLike, width: ArrayLike, weight_variance: ArrayLike
) -> Values:
    """E ||y_i||^2 = alpha + beta/i of row i of Y_1, for P = C_n and the Gram matrix R_eq(t) (Lemma C.5).

    alpha = d + d^2 sigma_W^2 rho, beta = d^2 sigma_W^2 (1 - rho).

    Args:
        position: Row i, counted from 1 to n.
        t: Token similarity of X_1, in [0, 1].
        n: Sequence length, at least 2.
        width: Model width d.
        weight_variance: sigma_W^2, see `folded_variance`.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    rho, t, n, d = token_correlation(t, n), within("t", t, 0, 1), whole("n", n, 2), whole("width", width, 1)
    i = whole("position", within("position", position, 1, n), 1)
    branch = d**2 * within("weight_variance", weight_variance, 0)
    return d + branch * (rho + n * (1 - t) / (n - 1) / i)


def ffn_row_norm(
    width: ArrayLike,
    ffn_width: ArrayLike,
    up_variance: ArrayLike,
    down_variance: ArrayLike,
    preact_variance: ArrayLike,
) -> Values:
    """E ||y_i||^2 = d + d_ff d^2 sigma_W3^2 sigma_W2^2 m(1) of every row of Y_2 (Lemma C.4).

    Arguments and errors: see `swiglu_coefficient` and `swiglu_moment`.
    """
    xi = swiglu_coefficient(width, ffn_width, up_variance, down_variance)
    return np.asarray(width, np.float64) * (1 + xi * swiglu_moment(1.0, preact_variance))


def rms_similarity_bounds(t: ArrayLike, eta: ArrayLike) -> SimilarityBounds:
    """Bounds on the token similarity of T Y, for a diagonal T with positive entries (Theorem C.6).

    They are max(sqrt(t) - eta, 0)^2/(1 + eta)^2 and (sqrt(t) + eta)^2/(1 - eta)^2; the upper bound can exceed 1.

    Args:
        t: Token similarity of Y, in [0, 1].
        eta: Spread of the RMSNorm factors, max |T_ii - mean|/mean, at least 0 and less than 1.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    root, eta = np.sqrt(within("t", t, 0, 1)), within("eta", eta, 0)
    if (eta >= 1).any():
        raise ValueError(f"eta must be below 1, got {float(eta[eta >= 1].flat[0])!r}")
    return SimilarityBounds(
        lower=(np.maximum(root - eta, 0) / (1 + eta)) ** 2,
        upper=((root + eta) / (1 - eta)) ** 2,
    )
