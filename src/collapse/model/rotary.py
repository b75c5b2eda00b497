"""Rotary position embedding as a complex multiplication: one vectorized pass."""

import torch
from torch import Tensor

from collapse.recording.taps import full


def rotary_table(length: int, head_width: int, base: float, device: torch.device | str = "cpu") -> Tensor:
    """exp(i m theta_k) for positions m and frequencies k: (n, 1, 1, head_width / 2), in single precision.

    No module keeps it as a buffer, so no cast of a model can round it.
    """
    frequencies = base ** -(torch.arange(0, head_width, 2, dtype=torch.float32, device=device) / head_width)
    angles = torch.outer(torch.arange(length, dtype=torch.float32, device=device), frequencies)
    return torch.polar(torch.ones_like(angles), angles)[:, None, None]


def rotate(x: Tensor, table: Tensor) -> Tensor:
    """Turn the neighbouring pairs (x_2k, x_2k+1) of every head by their position's angle.

    Llama's code pairs x_k with x_(k + head_width / 2) instead; the two differ by a fixed order of the rows of W_Q and
    W_K inside each head, which changes neither the model nor its initialization (see `hugging_face.py`).

    Args:
        x: (B, n, m, heads, head_width).
        table: of `rotary_table`.
    """
    pairs = torch.view_as_complex(full(x).reshape(*x.shape[:-1], -1, 2))
    return torch.view_as_real(pairs * table).flatten(-2).to(x.dtype)
