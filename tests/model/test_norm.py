"""The boundary function against plain operations, and the taps against float64 linear algebra."""

import numpy as np
import pytest
import torch
from torch import Tensor

from collapse.model.norm import FEW_THREADS, compiled, residual_norm
from collapse.recording.recorder import Recorder
from collapse.recording.taps import GRADIENT_SCALE, scaled_squared_norm

SIZE = (2, 5, 8)


def tensors(seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    generator = torch.Generator().manual_seed(seed)
    residual, branch = (torch.randn(SIZE, dtype=torch.float64, generator=generator) for _ in range(2))
    gain = 1 + 0.1 * torch.randn(SIZE[-1], dtype=torch.float64, generator=generator)
    return residual.requires_grad_(), branch.requires_grad_(), gain.requires_grad_()


@pytest.mark.parametrize("eps", [0.0, 1e-5])
def test_gradients_by_finite_differences(eps: float) -> None:
    residual, branch, gain = tensors()
    assert torch.autograd.gradcheck(
        lambda r, b, g: sum(residual_norm(r, b, g, eps)), (residual, branch, gain), check_undefined_grad=False
    )
    assert torch.autograd.gradcheck(
        lambda r, g: sum(residual_norm(r, None, g, eps)), (residual, gain), check_undefined_grad=False
    )


@pytest.mark.parametrize("x_is_normed", [True, False])
def test_measuring_changes_no_bit(x_is_normed: bool) -> None:
    residual, branch, gain = (t.detach().float().requires_grad_() for t in tensors())
    tap = Recorder(1, SIZE[-1], x_is_normed).taps(*SIZE[:2])[1]
    bare = residual_norm(residual, branch, gain, 1e-5)
    tapped = residual_norm(residual, branch, gain, 1e-5, tap)
    for a, b in zip(bare, tapped, strict=True):
        assert torch.equal(a, b)
    grads = [
        torch.autograd.grad(sum(t.square().sum() for t in out), (residual, branch, gain)) for out in (bare, tapped)
    ]
    assert all(torch.equal(a, b) for a, b in zip(*grads, strict=True))


def measured(x: Tensor, x_is_normed: bool = False) -> dict[str, np.ndarray]:
    """Moments of both Y and X at one boundary, for Y = x."""
    recorder = Recorder(1, x.shape[-1], x_is_normed)
    tap = recorder.taps(*x.shape[:2])[1]
    residual_norm(x, torch.zeros_like(x), torch.ones(x.shape[-1]), 0.0, tap)
    named = {f"{name}_{key}": getattr(getattr(tap, name), key) for name in "yx" for key in ("mean", "centred_norm")}
    named["row_sq"] = tap.row_sq
    return {key: value.double().numpy().squeeze() for key, value in named.items()}


@pytest.mark.parametrize("spread", [1.0, 1e-3, 1e-6])
def test_token_diversity_does_not_cancel(spread: float) -> None:
    """1 - tsim is the squared relative rank-1 residual (Dong et al. 2021), also where tsim is 1 to seven digits."""
    generator = torch.Generator().manual_seed(3)
    x = torch.randn(1, 1, 16, generator=generator) + spread * torch.randn(2, 40, 16, generator=generator)
    got = measured(x)
    rows = x.double().numpy()
    for sequence in range(2):
        ones = np.ones((40, 1))
        residual = rows[sequence] - ones @ np.linalg.lstsq(ones, rows[sequence], rcond=None)[0]
        relative = np.linalg.norm(residual) / np.linalg.norm(rows[sequence])
        diversity = got["y_centred_norm"][sequence] ** 2 / got["row_sq"][sequence].sum()
        assert np.sqrt(diversity) == pytest.approx(relative, rel=0.05 if spread < 1e-5 else 1e-4)
        similarity = 40 * (got["y_mean"][sequence] ** 2).sum() / got["row_sq"][sequence].sum()
        assert similarity == pytest.approx(1 - relative**2, abs=1e-5)


def test_x_of_post_norm_is_the_normalized_output() -> None:
    x = torch.randn(2, 6, 8, generator=torch.Generator().manual_seed(4)) * 3
    got = measured(x, x_is_normed=True)
    rows = x.double().numpy()
    normed = rows / np.sqrt((rows**2).mean(-1, keepdims=True))
    centred = normed - normed.mean(1, keepdims=True)
    np.testing.assert_allclose(got["x_centred_norm"], np.linalg.norm(centred, axis=(1, 2)), rtol=1e-5)
    np.testing.assert_allclose(got["x_mean"], normed.mean(1), rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["row_sq"], (rows**2).sum(-1), rtol=1e-5)


@pytest.mark.parametrize("exponent", [-27, -20, -10, 0, 9])
def test_gradient_norms_neither_underflow_nor_overflow(exponent: int) -> None:
    gradient = torch.randn(40, 50, generator=torch.Generator().manual_seed(5)).double()
    gradient *= 10.0**exponent / gradient.norm()
    out = torch.empty(())
    scaled_squared_norm(gradient.float(), torch.empty(40, 50), out)
    assert np.sqrt(float(out) / GRADIENT_SCALE) == pytest.approx(10.0**exponent, rel=1e-2)


@pytest.mark.parametrize("x_is_normed", [True, False])
@pytest.mark.parametrize("branched", [True, False])
@pytest.mark.parametrize("shape", [(1, 2, 3), (3, 17, 24), (2, 64, 96)])
def test_compiled_loops_equal_torch_operations(
    shape: tuple[int, int, int], branched: bool, x_is_normed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    generator = torch.Generator().manual_seed(6)
    tensors = [torch.randn(shape, generator=generator) + 0.5 for _ in range(2)]
    gain = 1 + 0.1 * torch.randn(shape[-1], generator=generator)
    weights = [torch.randn(shape, generator=generator) * 1e-3 for _ in range(2)]
    results = []
    for serves in (True, False):
        monkeypatch.setattr("collapse.model.norm.compiled", lambda *_, serves=serves: serves)
        residual, branch, leaf = (t.clone().requires_grad_() for t in (*tensors, gain))
        tap = Recorder(1, shape[-1], x_is_normed).taps(*shape[:2])[1]
        y, normed = residual_norm(residual, branch if branched else None, leaf, 1e-5, tap)
        # Under Pre-Norm the residual stream goes past the norm, too.
        loss = (normed * weights[0]).sum() + (0 if x_is_normed else (y * weights[1]).sum())
        loss.backward()
        moments = [tap.row_sq, tap.y.mean, tap.y.centred_norm, tap.grad_y_sq]
        moments += [tap.x.mean, tap.x.centred_norm, tap.grad_x_sq] if x_is_normed else []
        gradients = [residual.grad, leaf.grad, *([branch.grad] if branched else [])]
        results.append([t.detach().clone() for t in (y, normed, *gradients, *moments)])
    for fast, plain in zip(*results, strict=True):
        torch.testing.assert_close(fast, plain, rtol=2e-5, atol=2e-6 * max(1.0, float(plain.abs().max())))


@pytest.mark.parametrize("exponent", [-27, -21, 0, 9])
@pytest.mark.parametrize("serves", [True, False])
def test_no_boundary_loses_tiny_gradients(serves: bool, exponent: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collapse.model.norm.compiled", lambda *_: serves)
    generator = torch.Generator().manual_seed(8)
    rows = torch.randn(2, 30, 16, generator=generator).requires_grad_()
    tap = Recorder(1, 16, x_is_normed=True).taps(2, 30)[1]
    gradient = torch.randn(2, 30, 16, generator=generator).double()
    gradient *= 10.0**exponent / gradient.norm()
    _, normed = residual_norm(rows, None, torch.ones(16, requires_grad=True), 1e-5, tap)
    (grad_rows,) = torch.autograd.grad(normed, rows, gradient.float())
    for measured, wanted in ((tap.grad_x_sq, gradient), (tap.grad_y_sq, grad_rows)):
        assert np.sqrt(float(measured) / GRADIENT_SCALE) == pytest.approx(float(wanted.double().norm()), rel=1e-4)


def test_which_tensors_the_compiled_loops_serve(monkeypatch: pytest.MonkeyPatch) -> None:
    rows = torch.ones(2, 3, 4)
    monkeypatch.setattr(torch, "get_num_threads", lambda: 1)
    assert compiled(rows, rows[0])
    for other in (rows.double(), rows.bfloat16(), rows.transpose(0, 1), rows.to("meta")):
        assert not compiled(rows, other)
    monkeypatch.setattr(torch, "get_num_threads", lambda: FEW_THREADS + 1)
    assert not compiled(rows)
