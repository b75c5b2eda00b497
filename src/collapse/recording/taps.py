"""Taps: the places in the stack that measure what passes, forward and backward, inside the passes made anyway."""

from dataclasses import dataclass

import torch
from torch import Tensor

GRADIENT_SCALE = 2.0**60
"""Squared gradient norms are kept times this (exact, a power of two), so that norms down to 1e-27 do not underflow."""


@dataclass(frozen=True)
class Sequences:
    """What is measured of one (B, n, d) matrix of rows, per sequence; slices of a `Recorder`'s buffers."""

    mean: Tensor
    """(B, 1, d): the mean row."""
    centred_norm: Tensor
    """(B,): the Frobenius norm of the rows minus their mean, free of cancellation."""


@dataclass(frozen=True)
class Tap:
    """Where one boundary writes what it measures.

    At boundary j, Y is the output of sublayer j, and X the input of sublayer j + 1: RMS(Y) if `x_is_normed`, else Y.
    """

    row_sq: Tensor
    """(B, n): squared row norms of Y; the boundary itself computes them here."""
    y: Sequences
    x: Sequences
    """Left alone where X is Y."""
    grad_x_sq: Tensor
    grad_y_sq: Tensor
    """Scalars: `GRADIENT_SCALE` times ||dL/dX||_F^2 and ||dL/dY||_F^2 of the loss as the engine scales it."""
    workspace: Tensor
    """(B, n, d), shared by all taps; holds nothing between two calls."""
    x_is_normed: bool
    """Whether X, as the forward statistics mean it, is the normalized output."""
    gradient_is_normed: bool
    """Whether X, as the gradients mean it, is the normalized output."""

    def forward(self, y: Tensor, normed: Tensor) -> None:
        """Measure Y and X, (B, n, d)."""
        self._measure(y, self.y)
        if self.x_is_normed:
            self._measure(normed, self.x)

    def _measure(self, rows: Tensor, into: Sequences) -> None:
        torch.mean(rows, -2, keepdim=True, out=into.mean)
        torch.sub(rows, into.mean, out=self.workspace)
        torch.linalg.vector_norm(self.workspace, dim=(-2, -1), out=into.centred_norm)

    def backward(self, grad_y: Tensor, grad_normed: Tensor) -> None:
        """Measure dL/dY and dL/dX, (B, n, d)."""
        scaled_squared_norm(grad_y, self.workspace, self.grad_y_sq)
        if self.gradient_is_normed:
            scaled_squared_norm(grad_normed, self.workspace, self.grad_x_sq)


def full(x: Tensor) -> Tensor:
    """The tensor in float32 or better: half precisions are widened."""
    return x.to(torch.promote_types(x.dtype, torch.float32))


def scaled_squared_norm(gradient: Tensor, workspace: Tensor, out: Tensor) -> None:
    """Write `GRADIENT_SCALE` times the squared norm of a tensor to a scalar; the workspace has the tensor's shape.

    Scaling one factor of the product keeps squares of tiny gradients out of float32's underflow; norms above 1.7e10
    overflow to infinity.
    """
    torch.mul(gradient, GRADIENT_SCALE, out=workspace)
    torch.dot(gradient.reshape(-1), workspace.view(-1), out=out)
