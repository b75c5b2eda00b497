"""Residual addition and RMSNorm in one differentiable function, the place where everything is measured."""

from typing import Any

import torch
from torch import Tensor

from collapse.recording.taps import Tap, full


class _Boundary(torch.autograd.Function):
    """Y = residual + branch, normed = Y / rms(Y) * gain; differentiated by hand, so that a tap costs few passes."""

    @staticmethod
    def forward(
        ctx: Any, residual: Tensor, branch: Tensor | None, gain: Tensor, eps: float, tap: Tap | None
    ) -> tuple[Tensor, Tensor]:
        y = residual if branch is None else residual + branch
        wide = full(y)
        row_sq = torch.sum(wide.square(), -1, out=None if tap is None else tap.row_sq)
        inverse_rms = (row_sq / y.shape[-1] + eps).rsqrt().unsqueeze(-1)
        unit = (wide * inverse_rms).to(y.dtype)
        normed = unit * gain
        if tap is not None:
            tap.forward(wide, full(normed))
        ctx.save_for_backward(unit, inverse_rms, gain)
        ctx.tap = tap
        ctx.has_branch = branch is not None
        ctx.set_materialize_grads(False)
        return y.view_as(y) if branch is None else y, normed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_y_direct, grad_normed = grads
        unit, inverse_rms, gain = ctx.saved_tensors
        assert grad_normed is not None, "the normalized output of a boundary takes part in every loss"
        product = grad_normed * unit
        grad_gain = product.sum(tuple(range(product.dim() - 1)))
        along = (product @ gain).unsqueeze(-1) / unit.shape[-1]
        # J_RMS of Section 3.2: the gradient loses its part along the row, and is divided by the row's RMS.
        grad_y = torch.addcmul(grad_normed * gain, unit, along, value=-1).mul_(inverse_rms)
        if grad_y_direct is not None:
            grad_y = grad_y + grad_y_direct
        if ctx.tap is not None:
            ctx.tap.backward(full(grad_y), full(grad_normed))
        return grad_y, grad_y if ctx.has_branch else None, grad_gain, None, None


def residual_norm(
    residual: Tensor, branch: Tensor | None, gain: Tensor, eps: float, tap: Tap | None = None
) -> tuple[Tensor, Tensor]:
    """Y = residual + branch and RMS(Y) * gain, row by row (equation 1).

    Args:
        residual: (B, n, d), what the stack carries past the sublayer.
        branch: (B, n, d), the sublayer's output; None behind the embedding.
        gain: (d,), RMSNorm's learned gain.
        eps: RMSNorm's epsilon.
        tap: where to write measurements; None measures nothing. Measuring changes no output and no gradient.

    Returns:
        (Y, normed), each (B, n, d).
    """
    y, normed = _Boundary.apply(residual, branch, gain, eps, tap)  # type: ignore[no-untyped-call]
    return y, normed
