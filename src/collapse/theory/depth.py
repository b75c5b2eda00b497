"""Token similarity over depth at initialization, by iterating the increments of the sublayers."""

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from collapse.theory.attention import attention_increment, f2
from collapse.theory.domain import Values, positive, whole, within
from collapse.theory.ffn import ffn_increment, swiglu_moment


class DepthRecursion(NamedTuple):
    """Predicted state of every sublayer, (..., layers, 2) each; the last axis is attention, FFN."""

    tsim_x: Values
    """Token similarity of the sublayer's input X_k."""
    tsim_y: Values
    """Token similarity of its output Y_k."""
    mean_square: Values
    """||X_k||_F^2/(n d), the residual stream's mean square entry: 1 under Post-Norm."""


def depth_recursion(
    placement: str,
    n: ArrayLike,
    layers: int,
    variance_scale: ArrayLike,
    t0: ArrayLike,
    deescalation: ArrayLike = 0.0,
    variance_target: str = "all",
    mean_square: ArrayLike = 1.0,
) -> DepthRecursion:
    """Iterate Theorems 3.2 and 3.4 from the token similarity of the first layer's input.

    Every sublayer matrix has `variance_scale` times the standard variance 1/(3 fan_in). So s and xi are
    variance_scale^2/9 for normalized rows, and pre-activations have variance variance_scale/3. The recursion assumes
    that RMSNorm does not change token similarity (Theorem C.6 bounds the change). Under Pre-Norm the mean square of the
    residual stream starts at `mean_square` and grows by the factors 1 + s f2 and 1 + xi m(1), from the same
    expectations; s and xi shrink in proportion. If t0 is in [1/n, 1], all values stay in this interval.

    Args:
        placement: "post" or "pre".
        n: Sequence length, at least 2.
        layers: Number of layers L.
        variance_scale: Factor on the standard variance, positive.
        t0: Token similarity of X_1 of layer 1, in [0, 1].
        deescalation: a in [0, 1]: P - a C_n replaces P (Corollary 3.3).
        variance_target: "all", or "value_output" to scale the variance of W_V and W_O only.
        mean_square: ||X_1||_F^2/(n d) of layer 1 under Pre-Norm, positive; Post-Norm normalizes it to 1.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    if placement not in ("post", "pre"):
        raise ValueError(f"placement must be 'post' or 'pre', got {placement!r}")
    if variance_target not in ("all", "value_output"):
        raise ValueError(f"variance_target must be 'all' or 'value_output', got {variance_target!r}")
    depth = int(whole("layers", layers, 1))
    scale = positive("variance_scale", variance_scale)
    kept = (1 - within("deescalation", deescalation, 0, 1)) ** 2
    attention_coefficient = scale**2 / 9
    ffn_scale = scale if variance_target == "all" else np.ones_like(scale)
    ffn_coefficient, preact_variance = ffn_scale**2 / 9, ffn_scale / 3
    moment = swiglu_moment(1.0, preact_variance)

    start = positive("mean_square", mean_square) if placement == "pre" else np.ones(())
    t, _, _, _, square = np.broadcast_arrays(within("t0", t0, 0, 1), whole("n", n, 2), scale, kept, start)
    found = DepthRecursion(*(np.empty((*t.shape, depth, 2)) for _ in range(3)))
    for layer in range(depth):
        for sublayer in range(2):
            at = (..., layer, sublayer)
            found.tsim_x[at], found.mean_square[at] = t, square
            if sublayer == 0:
                share = attention_coefficient / square
                growth = 1 + kept * share * f2(t, n)
                t = t + attention_increment(kept * share, t, n)
            else:
                share = ffn_coefficient / square
                growth = 1 + share * moment
                t = t + ffn_increment(share, t, n, preact_variance)
            found.tsim_y[at] = t
            if placement == "pre":
                square = square * growth
    return found
