"""Rotary causal attention from fused projections in one differentiable function, for a CPU.

Queries, keys and values are laid out once for the matrix products, by the same pass that rotates; gradients come back
in one buffer; and attention weights are kept rather than computed again. Elsewhere, PyTorch's fused kernels do better.
"""

import math
from typing import Any

import torch
from torch import Tensor

BLOCK = 128
"""Rows of attention weights computed together: a block leaves out the columns behind its last row."""


def serves(x: Tensor) -> bool:
    """Whether `causal_attention` is the way for this tensor: full precision, on a CPU."""
    return x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)


def _turn(x: Tensor, table: Tensor, out: Tensor) -> None:
    """Write x, (..., head_width), turned by exp(i theta), (n, head_width / 2), to `out`."""
    pairs, turned = (torch.view_as_complex(t.view(*t.shape[:-1], -1, 2)) for t in (x, out))
    torch.mul(pairs, table, out=turned)


def _by_head(qkv: Tensor, heads: int) -> Tensor:
    """(B, n, 3 d) seen as (3, B, heads, n, head_width)."""
    batch, length, width = qkv.shape
    return qkv.view(batch, length, 3, heads, width // (3 * heads)).permute(2, 0, 3, 1, 4)


class _CausalAttention(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, qkv: Tensor, table: Tensor, heads: int) -> Tensor:
        parts = _by_head(qkv, heads)
        _, batch, _, length, width = parts.shape
        packed = qkv.new_empty(parts.shape)
        _turn(parts[:2], table, packed[:2])
        packed[2].copy_(parts[2])
        queries, keys, values = packed.flatten(1, 2)
        mixed = qkv.new_empty(batch, length, heads, width)
        future = qkv.new_full((BLOCK, BLOCK), -math.inf).triu_(1)
        weights = []
        for start in range(0, length, BLOCK):
            end = min(start + BLOCK, length)
            block = qkv.new_empty(batch * heads, end - start, end)
            torch.baddbmm(block, queries[:, start:end], keys[:, :end].mT, beta=0, alpha=width**-0.5, out=block)
            block[:, :, start:] += future[: end - start, : end - start]
            torch.softmax(block, -1, out=block)
            mixed[:, start:end] = torch.bmm(block, values[:, :end]).view(batch, heads, -1, width).transpose(1, 2)
            weights.append(block)
        ctx.save_for_backward(packed, table, *weights)
        return mixed.flatten(2)

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor, None, None]:
        packed, table, *weights = ctx.saved_tensors
        _, batch, heads, length, width = packed.shape
        queries, keys, values = packed.flatten(1, 2)
        grad_mixed = grads[0].view(batch, length, heads, width).transpose(1, 2).reshape(-1, length, width)
        gradient = torch.zeros_like(packed)
        grad_queries, grad_keys, grad_values = gradient.flatten(1, 2)
        for start, block in zip(range(0, length, BLOCK), weights, strict=True):
            end = start + block.shape[1]
            grad_rows, scale = grad_mixed[:, start:end], width**-0.5
            grad_values[:, :end].baddbmm_(block.mT, grad_rows)
            grad_block = torch.bmm(grad_rows, values[:, :end].mT)
            torch._softmax_backward_data(grad_block, block, -1, block.dtype, grad_input=grad_block)
            grad_queries[:, start:end].baddbmm_(grad_block, keys[:, :end], alpha=scale)
            grad_keys[:, :end].baddbmm_(grad_block.mT, queries[:, start:end], alpha=scale)
        grad_qkv = gradient.new_empty(batch, length, 3 * heads * width)
        parts = _by_head(grad_qkv, heads)
        _turn(gradient[:2], table.conj().resolve_conj(), parts[:2])
        parts[2].copy_(gradient[2])
        return grad_qkv, None, None


def causal_attention(qkv: Tensor, table: Tensor, heads: int) -> Tensor:
    """Every token's mean of the values up to it, weighted by softmax(q k^T / sqrt(head_width)); (B, n, d).

    Args:
        qkv: (B, n, 3 d), the projections of the queries, keys and values, head by head; contiguous.
        table: of `rotary_table`.
        heads: number of heads.
    """
    mixed: Tensor = _CausalAttention.apply(qkv, table[:, 0, 0], heads)  # type: ignore[no-untyped-call]
    return mixed
