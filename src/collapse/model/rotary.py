"""Rotary position embedding, in Llama's half-split convention."""

from typing import Any

import torch
from torch import Tensor


def rotary_tables(length: int, head_width: int, base: float) -> tuple[Tensor, Tensor]:
    """Cosines and sines of every position and frequency, each (length, head_width / 2), float32."""
    frequencies = base ** -(torch.arange(0, head_width, 2, dtype=torch.float32) / head_width)
    angles = torch.outer(torch.arange(length, dtype=torch.float32), frequencies)
    return angles.cos(), angles.sin()


def _turn(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    first, second = x.chunk(2, dim=-1)
    turned = torch.empty_like(x)
    half = x.shape[-1] // 2
    torch.mul(first, cos, out=turned[..., :half]).addcmul_(second, sin, value=-1)
    torch.mul(second, cos, out=turned[..., half:]).addcmul_(first, sin)
    return turned


class _Rotate(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        ctx.save_for_backward(cos, sin)
        return _turn(x, cos, sin)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        cos, sin = ctx.saved_tensors
        return _turn(grads[0], cos, -sin), None, None


def rotate(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Turn the pair (x_i, x_(i + half)) of every head by its position's angle.

    Args:
        x: (..., head_width); the tables must broadcast to its halves.
        cos: cosines, (..., head_width / 2).
        sin: sines, likewise.
    """
    turned: Tensor = _Rotate.apply(x, cos, sin)  # type: ignore[no-untyped-call]
    return turned
