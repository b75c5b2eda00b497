"""Statements on constructed states: they hold on the real model, and each check can fail."""

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from collapse.checks import collapsed_states
from collapse.checks import expectations as collapsed_expectations
from collapse.checks import gradients as collapsed_gradients
from collapse.checks import network as collapsed_network
from collapse.checks import stationarity as collapsed_stationarity
from collapse.checks.network import Trial
from collapse.checks.statements import RELATIONS, Comparison, Relation, excess, worst
from collapse.claims.checks import TEXTS
from collapse.claims.judging import SAMPLED
from collapse.model.decoder import Attention, FeedForward
from collapse.pipeline.fingerprint import closure
from collapse.similarity import token_similarity
from collapse.store.dataset import described
from collapse.store.job import Job
from collapse.store.parts import Parts
from collapse.theory import attention as attention_theory

TRIALS = 3


def violations(data: xr.Dataset) -> dict[str, float]:
    """Largest violation over trials, in units of scale."""
    found = {}
    for name, relation in RELATIONS.items():
        at = data.sel(statement=name)
        found[name] = excess(relation, Comparison(at.measured.values, at.stated.values, at.scale.values)).max()
    return found


def failing(data: dict[str, Comparison]) -> set[str]:
    """Statements that one trial's comparisons violate beyond tolerance."""
    return {name for name, c in data.items() if excess(RELATIONS[name], c).max() > TEXTS[name].tolerance}


@pytest.fixture(scope="module")
def measured() -> xr.Dataset:
    return collapsed_states.try_statements(1, TRIALS)


@pytest.mark.parametrize("name", RELATIONS)
def test_every_statement_holds(measured: xr.Dataset, name: str) -> None:
    assert violations(measured)[name] <= TEXTS[name].tolerance


def test_identities_hold_to_rounding(measured: xr.Dataset) -> None:
    exact = [name for name, text in TEXTS.items() if RELATIONS[name] == "equals" and text.tolerance != SAMPLED]
    found = violations(measured)
    assert max(found[name] for name in exact) < 1e-12


def test_bounds_are_not_idle(measured: xr.Dataset) -> None:
    """Bounds that a constructed state comes near; where none does, a wrong factor would go unseen."""
    near = {
        "theorem-3.6": 0.1, "theorem-3.6-layer": 0.1, "theorem-3.6-depth": 0.2, "proposition-d1-rows": 0.2,
        "proposition-d1-gradient": 0.3, "theorem-3.8-near": 0.9, "theorem-c6-lower": 0.01, "theorem-c6-upper": 0.01,
    }  # fmt: skip
    found = violations(measured)
    assert {name: found[name] for name, room in near.items() if not -room < found[name] <= 0} == {}


def test_growth_is_what_the_step_adds(measured: xr.Dataset) -> None:
    found = violations(measured)
    for name in ("proposition-d2-output-growth", "proposition-d2-down-growth"):
        assert found[name] == pytest.approx(-1, abs=1e-9)


def test_the_same_seed_gives_the_same_numbers() -> None:
    trials = (Trial.draw(7, 1, 3) for _ in range(2))
    first, second = (collapsed_gradients.contraction_checks(trial) for trial in trials)
    assert all(np.array_equal(a, b) for name in first for a, b in zip(first[name], second[name], strict=True))
    other = collapsed_gradients.contraction_checks(Trial.draw(8, 1, 3))
    assert not np.array_equal(first["theorem-3.6"].measured, other["theorem-3.6"].measured)


def test_constructed_rows_have_the_gram_matrix() -> None:
    trial = Trial.draw(0, 0, 2)
    n, d = collapsed_expectations.N, collapsed_expectations.D
    for t in (1 / n, 0.3, 1.0):
        x = collapsed_expectations.equal_correlation(trial, t).numpy()
        rho = (n * t - 1) / (n - 1)
        np.testing.assert_allclose(x @ x.T, d * (rho + (1 - rho) * np.eye(n)), atol=1e-10)
        assert float(token_similarity(x)) == pytest.approx(t)


def test_the_run_is_the_decoders() -> None:
    """The states are those of `Decoder.hidden`, at ids that need not be collapsed."""
    decoder = Trial.draw(0, 1, 2).decoder
    ids = torch.arange(collapsed_network.SHAPE.sequence_length) % collapsed_network.SHAPE.vocab_size
    states = collapsed_network.run(decoder, decoder.embedding(ids).detach())
    torch.testing.assert_close(states.x[-1], decoder.hidden(ids[None])[0])


def test_the_head_outputs_the_frequencies() -> None:
    trial = Trial.draw(0, 1, 2)
    row, labels = trial.normal(collapsed_network.SHAPE.width), trial.labels()
    head = collapsed_stationarity.frequency_head(trial, row, labels)
    counts = torch.bincount(labels, minlength=len(head)).double()
    torch.testing.assert_close(torch.softmax(head @ row, 0), counts / counts.sum())
    assert torch.linalg.matrix_rank(head) == len(head)


# What must be noticed: a network or a formula that is not the paper's.


def not_normalized(self: Attention, x: Tensor, table: Tensor) -> Tensor:
    """Causal attention whose weights sum to 1 - 1/(2 i) in row i."""
    queries, keys, values = self.project(x, table)
    mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    share = 1 - 0.5 / torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)
    return self.merge(mixed * share[:, None])


def with_positions(self: FeedForward, x: Tensor) -> Tensor:
    """An FFN that is not the same at every position."""
    out: Tensor = self.down(torch.sigmoid(self.gate_up(x).chunk(2, -1)[0]))
    return out * torch.arange(1, x.shape[-2] + 1, dtype=x.dtype)[:, None]


def test_attention_that_is_no_average_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Attention, "forward", not_normalized)
    assert {"lemma-e1", "theorem-3.8-vanishing"} <= failing(collapsed_stationarity.network_checks(Trial.draw(0, 1, 2)))
    found = failing(collapsed_stationarity.sublayer_checks(Trial.draw(0, 1, 2)))
    assert found == {"theorem-e3-attention-parameters", "theorem-e3-attention-input"}
    assert "proposition-d2-output" in failing(collapsed_gradients.growth_checks(Trial.draw(0, 1, 2)))


def test_an_ffn_that_knows_positions_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(FeedForward, "forward", with_positions)
    found = failing(collapsed_stationarity.sublayer_checks(Trial.draw(0, 1, 2)))
    assert found == {"theorem-e3-ffn-parameters", "theorem-e3-ffn-input"}
    assert "lemma-e1" in failing(collapsed_stationarity.network_checks(Trial.draw(0, 1, 2)))
    assert "proposition-d2-down" in failing(collapsed_gradients.growth_checks(Trial.draw(0, 1, 2)))


def test_a_norm_that_is_not_row_by_row_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    def normalize(y: Tensor) -> Tensor:
        position = torch.arange(1, y.shape[-2] + 1, dtype=y.dtype)[:, None]
        return y * position / y.square().mean(-1, keepdim=True).sqrt()

    for module in (collapsed_network, collapsed_stationarity):
        monkeypatch.setattr(module, "normalize", normalize)
    assert "lemma-e4" in failing(collapsed_stationarity.sublayer_checks(Trial.draw(0, 1, 2)))
    assert "lemma-e1" in failing(collapsed_stationarity.network_checks(Trial.draw(0, 1, 2)))


def test_a_norm_that_keeps_the_radial_gradient_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without its projection RMSNorm's gradient is not orthogonal to Y, and steps no longer grow Y as stated."""

    def normalize(y: Tensor) -> Tensor:
        return y / y.detach().square().mean(-1, keepdim=True).sqrt()

    monkeypatch.setattr(collapsed_network, "normalize", normalize)
    found = failing(collapsed_gradients.growth_checks(Trial.draw(0, 1, 2)))
    assert {"proposition-d2-orthogonal", "proposition-d2-output", "proposition-d2-down"} <= found


@pytest.mark.parametrize(
    ("module", "function", "checks", "noticed"),
    [
        (collapsed_gradients, "contraction_factor", "contraction_checks",
         {"theorem-3.6", "theorem-3.6-layer", "theorem-3.6-depth"}),
        (collapsed_gradients, "near_collapse_bound", "near_collapse_checks",
         {"proposition-d1-rows", "proposition-d1-gradient"}),
        (collapsed_stationarity, "frequency_loss", "network_checks", {"theorem-3.8-attained"}),
        (collapsed_expectations, "swiglu_moment", "ffn_checks", {"theorem-3.4-projected", "theorem-3.4-total"}),
        (collapsed_expectations, "ffn_row_norm", "ffn_checks", {"lemma-c4"}),
        (collapsed_expectations, "attention_row_norm", "attention_checks", {"lemma-c5"}),
        (collapsed_expectations, "attention_expectations", "attention_checks",
         {"theorem-c3-projected", "theorem-c3-total", "corollary-3.3-projected", "corollary-3.3-total"}),
    ],
)  # fmt: skip
def test_a_formula_that_is_off_is_noticed(
    monkeypatch: pytest.MonkeyPatch, module: object, function: str, checks: str, noticed: set[str]
) -> None:
    formula = getattr(module, function)

    def smaller(*args: object) -> object:
        found = formula(*args)
        return attention_theory.SquaredNorms(*(0.8 * v for v in found)) if isinstance(found, tuple) else 0.8 * found

    monkeypatch.setattr(module, function, smaller)
    monkeypatch.setattr(collapsed_expectations, "DRAWS", 100)
    if function == "swiglu_moment":  # what SwiGLU adds is 1 % of the norm: only a moment far too large stands out
        monkeypatch.setattr(module, function, lambda *args: 3 * formula(*args))
    assert noticed <= failing(getattr(module, checks)(Trial.draw(0, 1, 3)))


@pytest.mark.parametrize(
    ("change", "noticed"),
    [
        (lambda low, high: (low * 1.2, high), "theorem-c6-lower"),
        (lambda low, high: (low, high * 0.8), "theorem-c6-upper"),
    ],
)
def test_bounds_that_are_too_tight_are_noticed(
    monkeypatch: pytest.MonkeyPatch, change: Callable[[object, object], tuple[object, object]], noticed: str
) -> None:
    bounds = collapsed_expectations.rms_similarity_bounds
    monkeypatch.setattr(collapsed_expectations, "rms_similarity_bounds", lambda t, eta: change(*bounds(t, eta)))
    assert noticed in failing(collapsed_expectations.rescaling_checks(Trial.draw(0, 1, 3)))


def test_a_loss_floor_that_is_too_high_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    floor = collapsed_stationarity.loss_floor
    monkeypatch.setattr(
        collapsed_stationarity, "loss_floor", lambda lowest, eps, size, n: floor(lowest, 0.05 * eps, size, n)
    )
    assert failing(collapsed_stationarity.loss_checks(Trial.draw(0, 1, 3))) == {"theorem-3.8-near"}


def test_an_output_that_is_not_the_frequencies_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    head = collapsed_stationarity.frequency_head
    monkeypatch.setattr(collapsed_stationarity, "frequency_head", lambda *args: 0.99 * head(*args))
    found = failing(collapsed_stationarity.loss_checks(Trial.draw(0, 1, 3)))
    assert {"lemma-e2-hidden", "lemma-e2-head"} <= found
    found = failing(collapsed_stationarity.network_checks(Trial.draw(0, 1, 3)))
    assert found == {"theorem-3.8-attained", "theorem-3.8-vanishing"}


def test_the_erratum_is_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the right factor in place of the printed one, nothing is told apart."""
    stated = collapsed_expectations.attention_expectations
    d, variance = collapsed_expectations.D, collapsed_expectations.WEIGHT_VARIANCE
    monkeypatch.setattr(
        collapsed_expectations, "attention_expectations", lambda t, n, width, v, a=0.0: stated(t, n, d, variance, a)
    )
    found = failing(collapsed_expectations.attention_checks(Trial.draw(0, 1, 3)))
    assert found == {"erratum-c3-projected", "erratum-c3-total"}


def test_centers_of_another_variance_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    normal = Trial.normal
    monkeypatch.setattr(Trial, "normal", lambda self, *shape: normal(self, *shape) * (2.0 if len(shape) == 3 else 1.0))
    found = failing(collapsed_expectations.conditional_checks(Trial.draw(0, 1, 3)))
    assert "lemma-c11-centers" in found and "lemma-c7" not in found


def test_the_lemma_on_ratios_needs_its_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """With thresholds far beyond gamma epsilon the two events are too rare to cover the ratio's."""
    monkeypatch.setattr(collapsed_expectations, "min", lambda *values: 10 * max(values), raising=False)
    assert "lemma-c7" in failing(collapsed_expectations.conditional_checks(Trial.draw(0, 1, 3)))


relations = st.sampled_from(["equals", "at most", "at least"])
finite = st.floats(-1e6, 1e6)


@given(relations, finite, finite, st.floats(1e-3, 1e3))
def test_excess_is_positive_where_the_relation_is_violated(
    relation: Relation, measured: float, stated: float, scale: float
) -> None:
    holds = {"equals": measured == stated, "at most": measured <= stated, "at least": measured >= stated}[relation]
    found = float(excess(relation, Comparison(measured, stated, scale)))
    assert (found <= 0) == holds
    assert abs(found) == pytest.approx(abs(measured - stated) / scale)


@given(relations, st.lists(st.tuples(finite, finite, st.floats(1e-3, 1e3)), min_size=1, max_size=5))
def test_the_worst_comparison_is_one_of_them(relation: Relation, rows: list[tuple[float, float, float]]) -> None:
    every = Comparison(*np.array(rows).T)
    chosen = worst(relation, every)
    assert tuple(map(float, chosen)) in rows
    assert excess(relation, chosen) == excess(relation, every).max()


def test_nothing_compared_is_nan() -> None:
    assert np.isnan(excess("at most", Comparison(1.0, 2.0, 0.0)))
    assert np.isnan(excess("equals", worst("equals", Comparison([1.0, 1.0], 1.0, [1.0, 0.0]))))


def test_the_dataset(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(collapsed_expectations, "DRAWS", 20)
    job = Job(collapsed_states.Spec(seed=3), Parts(tmp_path / "scratch"))
    data = described(collapsed_states.measure(job), collapsed_states.VARIABLES)
    assert data["measured"].dims == ("statement", "trial") and data["measured"].dtype == np.float64
    assert data.sizes["trial"] == collapsed_states.TRIALS
    assert dict(zip(data["statement"].values, data["relation"].values, strict=True)) == RELATIONS
    assert {*data.data_vars, *data.coords} == set(collapsed_states.VARIABLES)
    assert all(data[name].attrs["long_name"] for name in collapsed_states.VARIABLES)
    assert np.isfinite(data["measured"]).all()


def test_a_seed_is_not_negative() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 0"):
        collapsed_states.Spec(seed=-1)


def test_a_new_sentence_measures_nothing_again() -> None:
    """What a claim says or tolerates does not count in the fingerprint of what is measured."""
    modules = closure("collapse.checks.collapsed_states")
    assert "collapse.checks.statements" in modules
    assert not [name for name in modules if name.startswith(("collapse.claims", "collapse.analysis"))]
