"""SwiGLU's elementwise part, with a backward pass that writes both halves of the gradient in place."""

from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from collapse.model import kernels
from collapse.model.norm import compiled


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


class _CompiledSwiGLU(torch.autograd.Function):
    """The same in compiled loops; the gate's activation is computed again, not kept."""

    @staticmethod
    def forward(ctx: Any, gate_up: Tensor) -> Tensor:
        out = gate_up.new_empty(*gate_up.shape[:-1], gate_up.shape[-1] // 2)
        kernels.forward(*(t.detach().flatten(0, -2).numpy() for t in (gate_up, out)))
        ctx.save_for_backward(gate_up)
        return out

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Tensor:
        (gate_up,) = ctx.saved_tensors
        gradient = torch.empty_like(gate_up)
        kernels.backward(*(t.detach().flatten(0, -2).numpy() for t in (gate_up, grads[0].contiguous(), gradient)))
        return gradient


def swiglu(gate_up: Tensor) -> Tensor:
    """SiLU(g) * u for (..., 2 d_ff) holding g and u side by side (equation 2); (..., d_ff)."""
    function = _CompiledSwiGLU if compiled(gate_up) else _SwiGLU
    out: Tensor = function.apply(gate_up)  # type: ignore[no-untyped-call]
    return out
