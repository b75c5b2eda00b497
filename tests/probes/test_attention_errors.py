"""Sums and their reduction against plain float64 loops over seeds and heads; outputs and errors of the jobs."""

import json

import numpy as np
import pytest
import torch
import xarray as xr

from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError
from collapse.probes import attention_errors, attention_sums, triangle
from collapse.probes.attention_errors import ERRORS, VARIABLES, prefix_bias, reduce_slices
from collapse.probes.attention_sums import SUMS, Initializations, Spec
from collapse.probes.jackknife import jackknife_error
from collapse.probes.network import Network, read_window
from collapse.store.dataset import load_dataset, spec_of
from collapse.store.job import Job, join_slices, run_job
from collapse.store.parts import Parts
from collapse.theory.attention import prefix_average


@pytest.fixture
def spec(stack):
    return Spec.model_validate(stack)


@pytest.fixture
def window(spec, byte_tokens):
    return read_window(TokenStore.open(byte_tokens).train, spec.model, spec.window)


@pytest.fixture
def small_blocks(monkeypatch):
    """Several blocks of rows, the last one shorter."""
    monkeypatch.setattr(triangle, "BLOCK_ROWS", 7)


def measure(spec, window, *slices, dtype=torch.float64):
    """Results of both jobs without files: the sums of the slices by layer, and their reduction."""
    sums = []
    for first, last in slices:
        stacks = Initializations(spec, window, range(first, last), dtype)
        layers = [stacks.advance() for _ in range(spec.model.layers)]
        sums.append(xr.concat(layers, "layer"))
    return sums, reduce_slices(sums, spec.model)


def plain_loop(spec, window, seeds):
    """X_1 and P by their definitions, in numpy float64: (seeds, layers, n, d) and (seeds, layers, heads, n, n)."""
    config = spec.model
    n, heads, width = config.sequence_length, config.heads, config.width // config.heads
    angles = np.outer(np.arange(n), config.rope_base ** (-np.arange(0, width, 2) / width))
    states, matrices = [], []

    def rms(rows):
        return rows / np.sqrt((rows**2).mean(1, keepdims=True))

    def turned(rows):
        out = np.empty_like(rows)
        even, odd = rows[:, ::2], rows[:, 1::2]
        out[:, ::2] = even * np.cos(angles) - odd * np.sin(angles)
        out[:, 1::2] = even * np.sin(angles) + odd * np.cos(angles)
        return out

    for seed in seeds:
        network = Network(config, seed)
        x = rms(network.embedding[window].double().numpy())
        for _ in range(config.layers):
            layer = network.draw_layer().double()
            w_q, w_k, w_v = (w.numpy() for w in layer.attention.qkv.weight.chunk(3))
            gate, up = (w.numpy() for w in layer.ffn.gate_up.weight.chunk(2))
            ps, mixed = [], []
            for h in range(heads):
                rows = slice(h * width, (h + 1) * width)
                scores = turned(x @ w_q[rows].T) @ turned(x @ w_k[rows].T).T / np.sqrt(width)
                p = np.exp(scores) * np.tri(n)
                ps.append(p / p.sum(1, keepdims=True))
                mixed.append(ps[-1] @ x @ w_v[rows].T)
            states.append(x)
            matrices.append(ps)
            x = rms(x + np.concatenate(mixed, 1) @ layer.attention.output.weight.numpy().T)
            u = x @ gate.T
            x = rms(x + (u / (1 + np.exp(-u)) * (x @ up.T)) @ layer.ffn.down.weight.numpy().T)
    shape = (len(seeds), config.layers)
    return np.reshape(states, (*shape, n, -1)), np.reshape(matrices, (*shape, heads, n, n))


def errors_of(x, p):
    """Prefix error, delta_attn and delta_proj of states (seeds, n, d) and matrices (seeds, heads, n, n)."""
    n = p.shape[-1]
    c, projection = prefix_average(n), np.full((n, n), 1 / n)
    moments = [head @ x[seed] @ x[seed].T @ head.T for seed in range(len(x)) for head in p[seed]]
    mean_p, exact = p.mean((0, 1)), np.mean(moments, 0)
    proxy = mean_p @ np.mean([state @ state.T for state in x], 0) @ mean_p.T
    norm = np.linalg.norm
    return (
        norm(mean_p - c) / norm(c),
        norm(exact - proxy) / norm(exact),
        norm(projection @ (exact - proxy) @ projection) / norm(projection @ exact @ projection),
    )


@pytest.mark.parametrize("rms", ["unit", "as_trained"])
def test_against_plain_loops_in_float64(spec, window, rms, small_blocks):
    spec = spec.model_copy(update={"input_rms": rms})
    sums, found = measure(spec, window, (0, 2), (2, 3))
    x, p = plain_loop(spec, window, range(3))
    lower = np.tri(24, dtype=bool)
    gram, moved = x @ x.swapaxes(-1, -2), p @ x[:, :, None]
    wanted_sums = {"sum_p": p.sum(2), "sum_pxxp": (moved @ moved.swapaxes(-1, -2)).sum(2), "sum_xx": gram}
    for part, seeds in zip(sums, (slice(0, 2), slice(2, 3)), strict=True):
        for name, values in wanted_sums.items():
            np.testing.assert_allclose(part[name], values[seeds].sum(0)[:, lower], rtol=1e-6, atol=1e-6, err_msg=name)
    without = {0: [2], 2: [0, 1]}
    for layer in range(3):
        at = found.isel(layer=layer)
        for name, value in zip(ERRORS, errors_of(x[:, layer], p[:, layer]), strict=True):
            assert at[name] == pytest.approx(value, rel=1e-5), name
        for first, rest in without.items():
            for name, value in zip(ERRORS, errors_of(x[rest, layer], p[rest, layer]), strict=True):
                assert at[f"{name}_without"].sel(block=first) == pytest.approx(value, rel=1e-5), name
        single = [errors_of(x[[seed], layer], p[[seed], layer])[0] for seed in range(3)]
        np.testing.assert_allclose(at["prefix_error_seed"], single, rtol=1e-5)
        bias_sq = (3 * float(at["prefix_error"]) ** 2 - np.mean(np.square(single))) / 2
        assert at["prefix_bias"] == pytest.approx(max(0, bias_sq) ** 0.5, rel=1e-5)
        for name in ERRORS:
            wanted = jackknife_error(at[name], at[f"{name}_without"], [2, 1])
            assert at[f"{name}_se"] == pytest.approx(float(wanted))
    assert found["block_seeds"].values.tolist() == [2, 1]


def test_single_precision_suffices(spec, window):
    (_, single), (_, double) = (measure(spec, window, (0, 2), dtype=dtype) for dtype in (torch.float32, torch.float64))
    for name in (*ERRORS, "prefix_error_seed"):
        np.testing.assert_allclose(single[name], double[name], rtol=2e-4, err_msg=name)


def test_slicing_the_seeds_changes_only_the_standard_errors(spec, window, small_blocks):
    _, whole = measure(spec, window, (0, 4))
    for cuts in (((0, 1), (1, 2), (2, 3), (3, 4)), ((0, 2), (2, 4))):
        _, cut = measure(spec, window, *cuts)
        for name in (*ERRORS, "prefix_error_seed", "prefix_bias"):
            np.testing.assert_allclose(cut[name], whole[name], rtol=1e-9, err_msg=name)
        for name in ERRORS:
            assert (cut[f"{name}_se"] > 0).all()
            assert np.isnan(whole[f"{name}_se"]).all()


def test_more_initializations_lower_the_error_down_to_its_bias(spec, window, monkeypatch):
    """With a repeated token and sharp scores, equal tokens have equal scores, so the mean of P is not C_n."""
    draw_layer = Network.draw_layer

    def sharper(network):
        layer = draw_layer(network)
        layer.attention.qkv.weight[: 2 * spec.model.width] *= 4
        return layer

    window = torch.where(torch.arange(24) % 4 == 0, window, window[1])

    monkeypatch.setattr(Network, "draw_layer", sharper)
    few, many = (measure(spec, window, (0, count))[1] for count in (12, 120))
    assert (many["prefix_error"] < few["prefix_error"]).all()
    assert (many["prefix_bias"] < many["prefix_error"]).all()
    np.testing.assert_allclose(few["prefix_bias"], many["prefix_bias"], rtol=0.15)
    np.testing.assert_allclose(many["prefix_error_seed"].mean("seed"), few["prefix_error_seed"].mean("seed"), rtol=0.1)


def test_the_bias_of_a_known_distribution():
    rng = np.random.default_rng(1)
    truth = np.array([[0.3], [0.0]])
    draws = truth[:, None] + rng.normal(size=(2, 400, 1000)) / 1000**0.5
    single = np.linalg.norm(draws, axis=2)
    of_mean = np.linalg.norm(draws.mean(1), axis=1)
    # 1,000 entries of 0.3 have the norm 0.3 * 1000^0.5
    np.testing.assert_allclose(prefix_bias(of_mean, single.T), [0.3 * 1000**0.5, 0], rtol=1e-3, atol=0.02)
    assert np.isnan(prefix_bias(of_mean, single.T[:1])).all()


def test_two_tokens(spec, window):
    """For n = 2, P has one free entry per head, and every quantity has a closed form."""
    spec = spec.model_copy(update={"model": spec.model.model_copy(update={"sequence_length": 2})})
    (sums,), found = measure(spec, window[:2], (0, 1))
    heads = spec.model.heads
    for layer in range(3):
        first, left, right = sums["sum_p"].values[layer]
        assert first == pytest.approx(heads)
        assert left + right == pytest.approx(heads)
        wanted = 2**0.5 * abs(left / heads - 0.5) / 1.5**0.5
        assert found["prefix_error"][layer] == pytest.approx(wanted)
        assert found["prefix_error_seed"][0, layer] == pytest.approx(wanted)
    assert np.isnan(found["prefix_bias"]).all()
    assert np.isfinite(found["delta_attn"]).all() and np.isfinite(found["delta_proj"]).all()


@pytest.fixture
def command(spec, byte_tokens, tmp_path):
    def run(first, last, **changes):
        out = tmp_path / f"attention-{first}-{last}.zarr"
        job = Job(spec.model_copy(update=changes), Parts(tmp_path / "scratch"), range(first, last), byte_tokens)
        run_job(attention_sums, job, out, {"code": "abc"})
        return out

    return run


@pytest.fixture
def reduce(tmp_path):
    def run(*slices):
        out = tmp_path / "attention.zarr"
        join_slices(attention_errors, slices, out, {"code": "def"})
        return load_dataset(out)

    return run


def test_slices_make_one_described_dataset(spec, window, command, reduce, tmp_path):
    paths = [command(0, 2), command(2, 3)]
    assert not (tmp_path / "scratch").exists()
    data = reduce(*paths)
    sums, wanted = measure(spec, window, (0, 2), (2, 3), dtype=torch.float32)
    assert data.drop_attrs().identical(wanted)
    for path, part in zip(paths, sums, strict=True):
        stored = load_dataset(path)
        assert stored.drop_attrs().identical(part)
        assert all(stored[name].dtype == np.float32 for name in SUMS)
        assert all(variable.attrs["long_name"] for variable in stored.variables.values())
    assert set(data.variables) == set(VARIABLES)
    assert all(variable.attrs["long_name"] for variable in data.variables.values())
    assert spec_of(data) == {**spec.canonical(), "seeds": [0, 3]}
    origin = json.loads(data.attrs["provenance"])
    assert [origin["code"], *(part["code"] for part in origin["slices"])] == ["def", "abc", "abc"]


def test_slices_that_do_not_match_are_rejected(command, reduce, tmp_path):
    first, third, overlapping, other = command(0, 1), command(2, 3), command(0, 2), command(1, 2, window=3)
    with pytest.raises(CollapseError, match=r"starts at seed 2, and .* before seed 1"):
        reduce(first, third)
    with pytest.raises(CollapseError, match="starts at seed 0"):
        reduce(first, overlapping)
    with pytest.raises(CollapseError, match="another config"):
        reduce(first, other)
    with pytest.raises(CollapseError, match="missing or unfinished"):
        reduce(tmp_path / "absent.zarr")
