"""The boundary as compiled loops, for float32 on a CPU: everything is measured in the passes made anyway.

The loops are compiled on first use, in about a second, and kept in numba's cache. `norm.py` has the same in torch
operations, for every other device and precision and for many threads; the two agree within rounding.
"""

import math
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

F32 = NDArray[np.float32]

_REORDER = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered, and so vectorized; infinities and NaN keep their meaning."""


@njit(cache=True, fastmath=_REORDER, error_model="numpy")
def forward(
    residual: F32, branch: F32, add: bool, gain: F32, eps: float, y: F32, unit: F32, normed: F32, inverse_rms: F32,
    row_sq: F32, y_mean: F32, normed_mean: F32, measure_y: bool, measure_normed: bool,
) -> None:  # fmt: skip
    """Y = residual + branch, unit = Y / rms(Y), normed = unit * gain; all (B, n, d).

    Args:
        residual: what the stack carries past the sublayer.
        branch: the sublayer's output.
        add: whether there is a branch.
        gain: (d,).
        eps: RMSNorm's epsilon.
        y: output Y; may be `residual` itself where there is no branch.
        unit: output.
        normed: output.
        inverse_rms: output (B, n), one over the rows' RMS.
        row_sq: output (B, n), squared row norms of Y.
        y_mean: output (B, 1, d), the mean row of Y.
        normed_mean: output (B, 1, d), that of the normalized rows.
        measure_y: whether to fill `y_mean`.
        measure_normed: whether to fill `normed_mean`.
    """
    batch, length, width = residual.shape
    for b in range(batch):
        if measure_y:
            y_mean[b, 0, :] = 0
        if measure_normed:
            normed_mean[b, 0, :] = 0
        for i in range(length):
            total = np.float32(0)
            for k in range(width):
                value = residual[b, i, k] + branch[b, i, k] if add else residual[b, i, k]
                y[b, i, k] = value
                total += value * value
            row_sq[b, i] = total
            inverse = np.float32(1) / np.sqrt(total / np.float32(width) + np.float32(eps))
            inverse_rms[b, i] = inverse
            for k in range(width):
                value = y[b, i, k] * inverse
                unit[b, i, k] = value
                normed[b, i, k] = value * gain[k]
            if measure_y:
                for k in range(width):
                    y_mean[b, 0, k] += y[b, i, k]
            if measure_normed:
                for k in range(width):
                    normed_mean[b, 0, k] += normed[b, i, k]
        if measure_y:
            for k in range(width):
                y_mean[b, 0, k] /= np.float32(length)
        if measure_normed:
            for k in range(width):
                normed_mean[b, 0, k] /= np.float32(length)


@njit(cache=True, fastmath=_REORDER, error_model="numpy")
def centre(rows: F32, mean: F32, centred_norm: F32) -> None:
    """The Frobenius norm, (B,), of the rows, (B, n, d), minus their mean, (B, 1, d)."""
    batch, length, width = rows.shape
    for b in range(batch):
        total = 0.0
        for i in range(length):
            row = np.float32(0)
            for k in range(width):
                centred = rows[b, i, k] - mean[b, 0, k]
                row += centred * centred
            total += float(row)
        centred_norm[b] = math.sqrt(total)


@njit(cache=True, fastmath=_REORDER, error_model="numpy")
def backward(
    grad_normed: F32, direct: F32, add: bool, unit: F32, inverse_rms: F32, gain: F32, scale: float, grad_y: F32,
    grad_gain: F32,
) -> Any:  # fmt: skip
    """The gradients of Y, (B, n, d), and of the gain, (d,), from that of the normalized rows.

    Args:
        grad_normed: (B, n, d).
        direct: what reaches Y past the norm, (B, n, d).
        add: whether anything does.
        unit: Y / rms(Y), as `forward` left it.
        inverse_rms: likewise.
        gain: (d,).
        scale: see the result.
        grad_y: output.
        grad_gain: output.

    Returns:
        `scale` times the squared norm of `grad_normed`, and of `grad_y`.
    """
    batch, length, width = grad_normed.shape
    normed_sq, y_sq = 0.0, 0.0
    for k in range(width):
        grad_gain[k] = 0
    for b in range(batch):
        for i in range(length):
            along = np.float32(0)
            for k in range(width):
                product = grad_normed[b, i, k] * unit[b, i, k]
                grad_gain[k] += product
                along += product * gain[k]
            along /= np.float32(width)
            inverse = inverse_rms[b, i]
            for k in range(width):
                value = grad_normed[b, i, k]
                normed_sq += np.float64(value) * np.float64(value)  # in float32 tiny squares would underflow
                # J_RMS of Section 3.2: the gradient loses its part along the row, and is divided by the row's RMS.
                value = (value * gain[k] - unit[b, i, k] * along) * inverse
                if add:
                    value += direct[b, i, k]
                grad_y[b, i, k] = value
                y_sq += np.float64(value) * np.float64(value)
    return normed_sq * scale, y_sq * scale
