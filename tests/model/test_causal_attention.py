"""Causal attention for a CPU against the usual operations, forward and backward."""

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from collapse.model.causal_attention import BLOCK, causal_attention, serves
from collapse.model.rotary import rotary_table, rotate
from collapse.pipeline.cost import ATTENTION_BLOCK

HEADS, WIDTH = 3, 24


def inputs(batch: int, length: int, dtype: torch.dtype) -> tuple[Tensor, Tensor]:
    """Projections, large enough for weights that are far from uniform, and the rotary table."""
    generator = torch.Generator().manual_seed(0)
    qkv = (2 * torch.randn(batch, length, 3 * WIDTH, dtype=torch.float64, generator=generator)).to(dtype)
    table = rotary_table(length, WIDTH // HEADS, 100.0)
    return qkv.requires_grad_(), table.to(torch.complex128 if dtype == torch.float64 else torch.complex64)


def usual(qkv: Tensor, table: Tensor) -> Tensor:
    batch, length, _ = qkv.shape
    queries_keys, values = qkv.view(batch, length, 3, HEADS, -1).split((2, 1), dim=2)
    queries, keys = rotate(queries_keys, table).transpose(1, 3).unbind(2)
    mixed = functional.scaled_dot_product_attention(queries, keys, values.squeeze(2).transpose(1, 2), is_causal=True)
    return mixed.transpose(1, 2).reshape(batch, length, -1)


@pytest.mark.parametrize("length", [1, 2, BLOCK - 1, BLOCK, BLOCK + 1, 2 * BLOCK + 37])
@pytest.mark.parametrize("batch", [1, 2])
def test_equals_the_usual_operations(batch: int, length: int) -> None:
    for dtype, atol in ((torch.float32, 2e-5), (torch.float64, 1e-12)):
        qkv, table = inputs(batch, length, dtype)
        assert serves(qkv)
        upstream = torch.randn(batch, length, WIDTH, dtype=dtype, generator=torch.Generator().manual_seed(1))
        wanted = usual(qkv, table)
        (wanted_grad,) = torch.autograd.grad(wanted, qkv, upstream)
        got = causal_attention(qkv, table, HEADS)
        (got_grad,) = torch.autograd.grad(got, qkv, upstream.transpose(0, 1).contiguous().transpose(0, 1))
        torch.testing.assert_close(got, wanted, rtol=1e-5, atol=atol)
        torch.testing.assert_close(got_grad, wanted_grad, rtol=1e-5, atol=5 * atol)


def test_gradient_by_finite_differences() -> None:
    qkv, table = inputs(2, 5, torch.float64)
    assert torch.autograd.gradcheck(lambda x: causal_attention(x, table, HEADS), qkv)


def test_no_token_sees_a_later_one() -> None:
    qkv, table = inputs(2, BLOCK + 9, torch.float64)
    with torch.no_grad():
        before = causal_attention(qkv, table, HEADS)
        for changed in (BLOCK + 4, 7):
            later = qkv.clone()
            later[:, changed:] *= 100
            assert torch.equal(causal_attention(later, table, HEADS)[:, :changed], before[:, :changed])


def test_half_precisions_go_the_usual_way() -> None:
    assert not serves(torch.zeros(1, dtype=torch.bfloat16))


def test_the_plan_counts_its_blocks() -> None:
    assert ATTENTION_BLOCK == BLOCK
