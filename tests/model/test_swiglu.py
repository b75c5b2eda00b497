"""SwiGLU in torch operations and in compiled loops, against equation 2 written out in double precision."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from collapse.model import kernels
from collapse.model.norm import FEW_THREADS
from collapse.model.swiglu import swiglu


@pytest.fixture(params=["loops", "operations"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1 if request.param == "loops" else FEW_THREADS + 1)
    return str(request.param)


def equation_2(gate_up: Tensor) -> Tensor:
    gate, up = gate_up.double().chunk(2, -1)
    return functional.silu(gate) * up


def test_output_and_gradient(way: str) -> None:
    generator = torch.Generator().manual_seed(0)
    scales = torch.tensor([1e-20, 1.0, 5.0, 80.0]).reshape(-1, 1, 1)
    gate_up = (scales * torch.randn(4, 7, 2 * 33, generator=generator)).requires_grad_()
    upstream = torch.randn(4, 7, 33, generator=generator)
    wide = gate_up.detach().double().requires_grad_()
    wanted, got = equation_2(wide), swiglu(gate_up)
    assert got.grad_fn is not None and ("Compiled" in got.grad_fn.name()) == (way == "loops")
    wanted.backward(upstream.double())
    got.backward(upstream.transpose(0, 1).contiguous().transpose(0, 1))
    assert wide.grad is not None and gate_up.grad is not None
    torch.testing.assert_close(got.double(), wanted, rtol=2e-6, atol=1e-30)
    error = (gate_up.grad - wide.grad).abs()  # the gate's gradient changes sign, and rounds on the scale of its terms
    assert (
        error <= 1e-6 * upstream.double().abs().repeat(1, 1, 2) * (1 + wide.detach().abs().amax((1, 2), True))
    ).all()


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_what_is_not_finite_stays_so(way: str, value: float) -> None:
    gate_up = torch.ones(1, 3, 8)
    for k in (1, 5):
        changed = gate_up.clone()
        changed[0, 1, k] = value
        finite = torch.isfinite(swiglu(changed))
        assert not finite[0, 1, 1] and int(finite.sum()) == 11


@given(st.floats(-87, 88, width=32))
def test_exp_is_within_a_rounding_error(x: float) -> None:
    assert float(kernels.exp(np.float32(x))) == pytest.approx(math.exp(x), rel=1.2e-7)
