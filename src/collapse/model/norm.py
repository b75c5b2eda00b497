"""Residual addition and RMSNorm in one differentiable function, the place where everything is measured."""

from typing import Any

import torch
from torch import Tensor

from collapse.model import norm_kernels as kernels
from collapse.recording.taps import GRADIENT_SCALE, Tap, full

FEW_THREADS = 2
"""Up to so many threads, the compiled loops on one of them take less time than torch operations on all."""


def compiled(*tensors: Tensor) -> bool:
    """Whether the compiled loops serve these tensors: float32, on the CPU, in a process of few threads."""
    return torch.get_num_threads() <= FEW_THREADS and all(
        t.dtype == torch.float32 and t.device.type == "cpu" and t.is_contiguous() for t in tensors
    )


class _Boundary(torch.autograd.Function):
    """Y = residual + branch, normed = Y / rms(Y) * gain; differentiated by hand, so that a tap costs few passes."""

    @staticmethod
    def forward(
        ctx: Any, residual: Tensor, branch: Tensor | None, gain: Tensor, eps: float, tap: Tap | None
    ) -> tuple[Tensor, Tensor]:
        y = residual if branch is None else residual + branch
        wide = full(y)
        row_sq = torch.linalg.vector_norm(wide, dim=-1, out=None if tap is None else tap.row_sq).square_()
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


class _CompiledBoundary(torch.autograd.Function):
    """The same in compiled loops."""

    @staticmethod
    def forward(
        ctx: Any, residual: Tensor, branch: Tensor | None, gain: Tensor, eps: float, tap: Tap | None
    ) -> tuple[Tensor, Tensor]:
        y, unit, normed = (torch.empty_like(residual) for _ in range(3))
        inverse_rms = residual.new_empty(residual.shape[:-1])
        row_sq = torch.empty_like(inverse_rms) if tap is None else tap.row_sq
        inputs = residual, residual if branch is None else branch
        arrays = [t.detach().numpy() for t in (*inputs, gain, y, unit, normed, inverse_rms, row_sq)]
        measure_normed = tap is not None and tap.x_is_normed
        means = [residual.new_empty(1, 1, 1)] * 2 if tap is None else [tap.y.mean, tap.x.mean]
        y_mean, normed_mean = (mean.numpy() for mean in means)
        kernels.forward(
            *arrays[:2], branch is not None, arrays[2], eps, *arrays[3:], y_mean, normed_mean, tap is not None,
            measure_normed,
        )  # fmt: skip
        if tap is not None:
            kernels.centre(arrays[3], y_mean, tap.y.centred_norm.numpy())
            if measure_normed:
                kernels.centre(arrays[5], normed_mean, tap.x.centred_norm.numpy())
        ctx.save_for_backward(unit, inverse_rms, gain)
        ctx.tap = tap
        ctx.has_branch = branch is not None
        ctx.set_materialize_grads(False)
        return y, normed

    @staticmethod
    def backward(ctx: Any, *grads: Tensor | None) -> tuple[Tensor | None, ...]:
        grad_y_direct, grad_normed = grads
        unit, inverse_rms, gain = ctx.saved_tensors
        assert grad_normed is not None, "the normalized output of a boundary takes part in every loss"
        grad_y, grad_gain = torch.empty_like(unit), torch.empty_like(gain)
        inputs = grad_normed.contiguous(), (grad_normed if grad_y_direct is None else grad_y_direct).contiguous()
        arrays = [t.detach().numpy() for t in (*inputs, unit, inverse_rms, gain, grad_y, grad_gain)]
        normed_sq, y_sq = kernels.backward(
            *arrays[:2], grad_y_direct is not None, *arrays[2:5], GRADIENT_SCALE, *arrays[5:]
        )
        if ctx.tap is not None:
            ctx.tap.grad_x_sq.fill_(normed_sq)
            ctx.tap.grad_y_sq.fill_(y_sq)
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
    fast = compiled(*(t for t in (residual, branch, gain) if t is not None))
    function = _CompiledBoundary if fast else _Boundary
    y, normed = function.apply(residual, branch, gain, eps, tap)  # type: ignore[no-untyped-call]
    return y, normed
