"""Everything that a recorder yields, against a float64 decoder with retain_grad on every X and Y."""

from typing import NamedTuple

import numpy as np
import pytest
import torch
from torch import Tensor

from collapse.config.model import ModelConfig
from collapse.model.decoder import Attention, Decoder
from collapse.model.norm import residual_norm
from collapse.recording.recorder import Recorder, means_and_sums, unpack
from collapse.recording.statistics import METRICS
from collapse.training.loop import cross_entropy

N, D, LAYERS = 12, 16, 3


class Trace(NamedTuple):
    """X and Y of every sublayer, and X^H; gradients retained."""

    x: list[Tensor]
    y: list[Tensor]
    hidden: Tensor


def traced_forward(model: Decoder, ids: Tensor) -> tuple[Trace, Tensor]:
    """The forward pass sublayer by sublayer; X sits upstream of the split into residual and branch."""
    config = model.config

    def rms(x: Tensor, gain: Tensor) -> Tensor:
        return x / (x.square().mean(-1, keepdim=True) + config.norm_eps).sqrt() * gain

    gains = iter(model.norms)
    xs, ys = [], []
    y = model.embedding(ids)
    for layer in model.stack:
        for branch in (lambda z, a=layer.attention: a(z, model.rotary(ids.shape[1])), layer.ffn):
            x = rms(y, next(gains)) if config.placement == "post" else y * 1
            x.retain_grad()
            y = x + branch(x if config.placement == "post" else rms(x, last_gain(gains)))
            y.retain_grad()
            xs.append(x)
            ys.append(y)
    hidden = rms(y, next(gains))
    hidden.retain_grad()
    return Trace(xs, ys, hidden), model.head(hidden)


def last_gain(gains: object) -> Tensor:
    return next(gains)


def tsim(x: Tensor) -> np.ndarray:
    return (x.shape[1] * x.mean(1).square().sum(-1) / x.square().sum((1, 2))).detach().numpy()


def norm(gradient: Tensor | None) -> float:
    assert gradient is not None
    return float(gradient.norm())


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_all_quantities_against_retain_grad(placement: str, accumulation: int) -> None:
    config = ModelConfig.model_validate(
        {
            "placement": placement, "layers": LAYERS, "width": D, "heads": 2, "ffn_width": 24, "sequence_length": N,
            "vocab_size": 30, "tie_embeddings": False, "embedding_std": 1.0,
        }
    )  # fmt: skip
    generator = torch.Generator().manual_seed(7)
    ids, labels = (torch.randint(0, 30, (4, N), generator=generator) for _ in range(2))
    model = Decoder(config, seed=3)
    with torch.no_grad():
        for gain in model.norms:
            gain.normal_(1.0, 0.2, generator=generator)

    recorder = Recorder(LAYERS, D, model.placement.x_is_normed)
    for micro_ids, micro_labels in zip(ids.chunk(accumulation), labels.chunk(accumulation), strict=True):
        (cross_entropy(model(micro_ids, recorder), micro_labels) / accumulation).backward()
        recorder.collect()
    means, sums = means_and_sums(recorder.end_step()[None].double(), LAYERS)
    got = unpack(means.numpy(), sums.numpy(), np.full((1, 2 * LAYERS), np.nan), LAYERS, world_size=1)
    got_flat = {name: values[0].ravel() for name, values in got.layerwise.items()}

    reference = Decoder(config, seed=3).double()
    reference.load_state_dict(model.state_dict())
    trace, logits = traced_forward(reference, ids)
    torch.nn.functional.cross_entropy(logits.flatten(0, 1), labels.flatten()).backward()
    rows = [y.detach().norm(dim=-1) for y in trace.y]
    factors = [D**0.5 / r for r in rows]
    grad_x = np.array([norm(x.grad) for x in trace.x])
    grad_y = np.array([norm(y.grad) for y in trace.y])
    rms_factor = np.array([float(f.mean()) for f in factors])
    wanted = {
        "tsim_x": [tsim(x).mean() for x in trace.x],
        "tsim_y": [tsim(y).mean() for y in trace.y],
        "tdiv_x": [1 - tsim(x).mean() for x in trace.x],
        "tdiv_y": [1 - tsim(y).mean() for y in trace.y],
        "residual_rms": [float(r.mean()) / D**0.5 for r in rows],
        "rms_factor": rms_factor,
        "rms_factor_mean_token": [float((D**0.5 / y.detach().mean(1).norm(dim=-1)).mean()) for y in trace.y],
        "rms_spread": [float(((f - f.mean(-1, keepdim=True)).abs().amax(-1) / f.mean(-1)).mean()) for f in factors],
        "grad_x": grad_x,
        "grad_y": grad_y,
        "alpha": grad_x / grad_y,
        "contraction": grad_x / grad_y * rms_factor,
        # X_(k+1): the next sublayer's input; behind the last sublayer X^H under Post-Norm, Y itself under Pre-Norm.
        "transport": grad_x / [*grad_x[1:], norm(trace.hidden.grad) if placement == "post" else grad_y[-1]],
    }
    for name, values in wanted.items():
        np.testing.assert_allclose(got_flat[name], values, rtol=3e-5, err_msg=name)
    assert set(got_flat) - set(wanted) == {"param_grad"}
    assert set(got_flat) == {m.name for m in METRICS if len(m.dims) == 3}

    hidden = trace.hidden.detach()
    assert got.stepwise["tsim_final"][0] == pytest.approx(tsim(hidden).mean(), rel=1e-5)
    assert got.stepwise["tdiv_final"][0] == pytest.approx(1 - tsim(hidden).mean(), rel=1e-5)
    epsilon = (hidden - hidden.mean(1, keepdim=True)).norm(dim=(1, 2)).mean()
    assert got.stepwise["collapse_epsilon"][0] == pytest.approx(float(epsilon), rel=1e-5)


def test_under_pre_norm_transport_is_alpha() -> None:
    means = np.random.default_rng(0).random((2, 8 * 7 + 1))
    sums = np.zeros((2, 7, 2))
    sums[:] = np.random.default_rng(1).random((2, 7, 1))  # X_(k+1) is Y_k: both slots of a boundary are equal
    got = unpack(means, sums.reshape(2, -1), np.ones((2, 6)), 3, world_size=1).layerwise
    np.testing.assert_array_equal(got["transport"], got["alpha"])


def test_a_recorder_needs_a_forward_pass() -> None:
    with pytest.raises(RuntimeError, match="before any forward"):
        Recorder(1, 4, True).collect()


def test_token_similarity_never_exceeds_1() -> None:
    """Equal rows: tsim is 1 and tdiv 0, in float32 too."""
    recorder = Recorder(1, 64, x_is_normed=True)
    rows = torch.randn(8, 1, 64, generator=torch.Generator().manual_seed(1)).expand(8, 50, 64).clone().requires_grad_()
    gain = torch.ones(64, requires_grad=True)
    normed = rows
    for tap in recorder.taps(8, 50):
        normed = residual_norm(normed, None, gain, 1e-5, tap)[1]
    normed.sum().backward()
    recorder.collect()
    means, sums = means_and_sums(recorder.end_step()[None].double(), 1)
    got = unpack(means.numpy(), sums.numpy(), np.ones((1, 2)), 1, world_size=1)
    for name in ("tsim_x", "tsim_y"):
        assert (got.layerwise[name] <= 1).all() and (got.layerwise[name] > 1 - 1e-6).all()
    assert got.stepwise["tsim_final"][0] <= 1
    assert (got.layerwise["tdiv_y"] < 1e-12).all()


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("precision", ["fp32", "bf16"])
def test_activation_checkpointing_changes_no_bit(
    placement: str, precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A layer that is computed twice is measured twice, into the same places, and counted once."""
    config = ModelConfig.model_validate(
        {"placement": placement, "layers": LAYERS, "width": D, "heads": 2, "ffn_width": 24, "sequence_length": N,
         "vocab_size": 30}
    )  # fmt: skip
    generator = torch.Generator().manual_seed(7)
    ids, labels = (torch.randint(0, 30, (4, N), generator=generator) for _ in range(2))
    passes = []
    attend = Attention.forward
    monkeypatch.setattr(Attention, "forward", lambda *inputs: (passes.append(1), attend(*inputs))[1])
    results = []
    for again in (False, True):
        model = Decoder(config, seed=3)
        if precision == "bf16":
            model.bfloat16()
        model.checkpoint_activations = again
        recorder = Recorder(LAYERS, D, model.placement.x_is_normed)
        passes.clear()
        for micro_ids, micro_labels in zip(ids.chunk(2), labels.chunk(2), strict=True):
            cross_entropy(model(micro_ids, recorder), micro_labels).backward()
            recorder.collect()
        assert len(passes) == 2 * LAYERS * (2 if again else 1)
        results.append([recorder.end_step(), *(p.grad for p in model.parameters())])
    for kept, computed_again in zip(*results, strict=True):
        assert torch.equal(kept, computed_again)
