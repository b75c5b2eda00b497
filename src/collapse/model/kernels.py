"""SwiGLU's elementwise part as compiled loops, for float32 on a CPU: one pass forward, one backward.

The loops are compiled on first use, in about a second, and kept in numba's cache. `swiglu.py` has the same in torch
operations, for every other device and precision and for many threads; the two agree within rounding.
"""

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

F32 = NDArray[np.float32]

_REORDER = {"reassoc", "contract", "nsz", "arcp"}
"""Sums may be reordered, and so vectorized; infinities and NaN keep their meaning."""


@njit(cache=True, fastmath={"contract"}, error_model="numpy")
def exp(x: np.float32) -> Any:
    """e^x within 1e-7 of it, relatively, for x from -87 to 88, and as there outside; NaN stays NaN.

    The C library's is exact but serves one number at a time; this, after Cephes' `expf`, is vectorized.
    """
    x = np.float32(-87) if x < np.float32(-87) else np.float32(88) if x > np.float32(88) else x
    n = np.floor(x * np.float32(1.4426950408889634) + np.float32(0.5))
    r = (x - n * np.float32(0.693359375)) + n * np.float32(2.12194440e-4)  # x - n ln 2, ln 2 in two parts
    p = np.float32(1.9875691500e-4)
    p = p * r + np.float32(1.3981999507e-3)
    p = p * r + np.float32(8.3334519073e-3)
    p = p * r + np.float32(4.1665795894e-2)
    p = p * r + np.float32(1.6666665459e-1)
    p = p * r + np.float32(5.0000001201e-1)
    p = p * r * r + r + np.float32(1)
    power = np.int32((np.int32(n) + np.int32(127)) << np.int32(23)).view(np.float32)  # 2^n, bit by bit
    return p * power


@njit(cache=True, fastmath=_REORDER, error_model="numpy")
def forward(gate_up: F32, out: F32) -> None:
    """SiLU(g) * u, (rows, d_ff), of g and u side by side, (rows, 2 d_ff)."""
    rows, width = out.shape
    for i in range(rows):
        for k in range(width):
            gate = gate_up[i, k]
            out[i, k] = gate / (np.float32(1) + exp(-gate)) * gate_up[i, width + k]


@njit(cache=True, fastmath=_REORDER, error_model="numpy")
def backward(gate_up: F32, grad: F32, gradient: F32) -> None:
    """The gradient of g and u side by side, (rows, 2 d_ff), given that of the output, (rows, d_ff)."""
    rows, width = grad.shape
    for i in range(rows):
        for k in range(width):
            gate, up, upstream = gate_up[i, k], gate_up[i, width + k], grad[i, k]
            sigmoid = np.float32(1) / (np.float32(1) + exp(-gate))
            gradient[i, width + k] = upstream * gate * sigmoid
            gradient[i, k] = upstream * up * sigmoid * (np.float32(1) + gate * (np.float32(1) - sigmoid))
