"""A layer's two branches through torch.compile: one graph each, which all layers share, with the weights as inputs.

Equal to `Attention` and `FeedForward` within rounding. A graph serves one shape of input; another shape compiles again.
"""

import sysconfig
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

from collapse.errors import CollapseError
from collapse.model.decoder import Attention, Decoder, FeedForward
from collapse.recording.taps import full


def _turn(x: Tensor, table: Tensor) -> Tensor:
    """`rotate` in real arithmetic, which can be compiled; the table is that of `rotary_table`, seen as real."""
    even, odd = full(x).reshape(*x.shape[:-1], -1, 2).unbind(-1)
    cosine, sine = table.unbind(-1)
    return torch.stack((even * cosine - odd * sine, even * sine + odd * cosine), -1).flatten(-2).to(x.dtype)


@torch.compile(fullgraph=True, dynamic=False)
def _attention(x: Tensor, qkv: Tensor, output: Tensor, table: Tensor, heads: int) -> Tensor:
    batch, length, width = x.shape
    projected = functional.linear(x, qkv).view(batch, length, 3, heads, width // heads)
    queries_keys, values = torch.split(projected, [2, 1], dim=2)
    queries, keys = _turn(queries_keys, table).transpose(1, 3).unbind(2)
    values = values.squeeze(2).transpose(1, 2)
    mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    return functional.linear(mixed.transpose(1, 2).reshape(batch, length, width), output)


@torch.compile(fullgraph=True, dynamic=False)
def _feed_forward(x: Tensor, gate_up: Tensor, down: Tensor) -> Tensor:
    gate, up = functional.linear(x, gate_up).chunk(2, dim=-1)
    return functional.linear(functional.silu(gate) * up, down)


def compile_branches(decoder: Decoder) -> None:
    """Let a decoder compute its branches by the compiled graphs where gradients are; elsewhere nothing changes."""
    for layer in decoder.stack:
        _replace(layer.attention, _attention_of)
        _replace(layer.ffn, _feed_forward_of)


def _attention_of(module: Attention, x: Tensor, table: Tensor) -> Tensor:
    out: Tensor = _attention(x, module.qkv.weight, module.output.weight, torch.view_as_real(table), module.heads)
    return out


def _feed_forward_of(module: FeedForward, x: Tensor) -> Tensor:
    out: Tensor = _feed_forward(x, module.gate_up.weight, module.down.weight)
    return out


def _replace(module: Any, compiled: Callable[..., Tensor]) -> None:
    eager = module.forward

    def forward(*inputs: Tensor) -> Tensor:
        out: Tensor = compiled(module, *inputs) if torch.is_grad_enabled() else eager(*inputs)
        return out

    module.forward = forward


def require_compiler() -> None:
    """Make sure that what torch.compile generates for a CPU can be built.

    Raises:
        CollapseError: where it cannot.
    """
    from torch._inductor.cpp_builder import get_cpp_compiler
    from torch._inductor.exc import InvalidCxxCompiler

    try:
        get_cpp_compiler()
    except InvalidCxxCompiler:
        lacking = "a C++ compiler (g++, or what CXX names)"
    else:
        header = Path(sysconfig.get_path("include")) / "Python.h"
        if header.is_file():
            return
        lacking = f"Python's headers ({header})"
    raise CollapseError(f"execution.compile needs {lacking} on a CPU: install that, or set execution.compile to false")
