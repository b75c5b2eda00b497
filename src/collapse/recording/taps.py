"""Taps: the places in the stack that measure what passes, forward and backward, inside the passes made anyway."""

from dataclasses import dataclass

import torch
from torch import Tensor

GRADIENT_SCALE = 2.0**60
"""Squared gradient norms are kept times this (exact, a power of two), so that norms down to 1e-27 do not underflow."""


@dataclass(frozen=True)
class Tap:
    """Where one boundary writes what it measures; the tensors are slices of a `Recorder`'s buffers.

    At boundary j, Y is the output of sublayer j, and X the input of sublayer j + 1: RMS(Y) if `x_is_normed`, else Y.
    """

    row_sq: Tensor
    """(B, n): squared row norms of Y."""
    moments: Tensor
    """(5, B): `y_mean_sq`, `y_centred_sq`, `x_sq`, `x_mean_sq`, `x_centred_sq` (see `statistics.Moments`)."""
    gradient_sq: Tensor
    """(2,): accumulates `GRADIENT_SCALE` times ||dL/dX||_F^2 and ||dL/dY||_F^2 of the loss as the engine scales it."""
    x_is_normed: bool
    """Whether X, as the forward statistics mean it, is the normalized output."""
    gradient_is_normed: bool
    """Whether X, as the gradients mean it, is the normalized output."""

    def forward(self, y: Tensor, row_sq: Tensor, normed: Tensor) -> None:
        """Measure Y and X, (B, n, d)."""
        self.row_sq.copy_(row_sq)
        _mean_and_centred(full(y), self.moments[0], self.moments[1])
        if self.x_is_normed:
            x = full(normed)
            self.moments[2].copy_(_frobenius_sq(x))
            _mean_and_centred(x, self.moments[3], self.moments[4])
        else:
            self.moments[2].copy_(row_sq.sum(-1))
            self.moments[3:5].copy_(self.moments[0:2])

    def backward(self, grad_y: Tensor, grad_normed: Tensor) -> None:
        """Add the squared norms of dL/dY and dL/dX, (B, n, d)."""
        y_sq = scaled_squared_norm(grad_y)
        self.gradient_sq[1] += y_sq
        self.gradient_sq[0] += scaled_squared_norm(grad_normed) if self.gradient_is_normed else y_sq


def full(x: Tensor) -> Tensor:
    """The tensor in float32 or better: half precisions are widened."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def _frobenius_sq(x: Tensor) -> Tensor:
    norms: Tensor = torch.linalg.vector_norm(x, dim=(-2, -1))
    return norms.square()


def _mean_and_centred(x: Tensor, mean_sq: Tensor, centred_sq: Tensor) -> None:
    """||mean row||^2 and ||x - mean row||_F^2 of every sequence, without cancellation."""
    mean = x.mean(-2, keepdim=True)
    mean_sq.copy_(mean.square().sum((-2, -1)))
    centred_sq.copy_(_frobenius_sq(x - mean))


def scaled_squared_norm(gradient: Tensor) -> Tensor:
    """`GRADIENT_SCALE` times the squared norm of a tensor of any shape, a scalar.

    Scaling one factor of the product keeps squares of tiny gradients out of float32's underflow; norms above 1.7e10
    overflow to infinity.
    """
    flat = full(gradient.reshape(-1))
    return torch.dot(flat, flat * GRADIENT_SCALE)
