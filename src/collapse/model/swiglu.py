"""SwiGLU's elementwise part, with a backward pass that writes both halves of the gradient in place."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional


class _SwiGLU(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        gate, up = gate_up.chunk(2, dim=-1)
        activated = functional.silu(gate)
        ctx.save_for_backward(gate_up, activated)
        return activated * up

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        gate_up, activated = ctx.saved_tensors
        gate, up = gate_up.chunk(2, dim=-1)
        gradient = torch.empty_like(gate_up)
        grad_gate, grad_up = gradient.chunk(2, dim=-1)
        torch.mul(grads[0], activated, out=grad_up)
        torch.ops.aten.silu_backward.grad_input(grads[0] * up, gate, grad_input=grad_gate)
        return gradient


def swiglu(gate_up: Tensor) -> Tensor:
    """SiLU(g) * u for (..., 2 d_ff) holding g and u side by side (equation 2); (..., d_ff)."""
    out: Tensor = _SwiGLU.apply(gate_up)  # type: ignore[no-untyped-call]
    return out
