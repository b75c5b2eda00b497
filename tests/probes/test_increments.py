"""The increments against a plain float64 loop and the recorder of the trainings, and the whole job."""

import json
import shutil
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch

from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError
from collapse.files import tree_digest
from collapse.model.decoder import Decoder
from collapse.probes import combine, increments
from collapse.probes.increments import VARIABLES, Spec, measure_seed, position_bins
from collapse.probes.network import Network, read_window
from collapse.recording.recorder import Recorder, unpack
from collapse.similarity import token_diversity, token_similarity
from collapse.store.dataset import load_dataset, spec_of
from collapse.store.job import Job, join_slices, run_job
from collapse.store.parts import Parts
from collapse.theory.attention import attention_increment, prefix_average
from collapse.theory.depth import depth_recursion
from collapse.theory.ffn import ffn_increment

SWEEP = {
    "inputs": ["tokens", "gaussian"],
    "placements": ["post", "pre"],
    "variance_scales": [1.0, 2.0],
    "variance_target": "all",
    "deescalations": [0.0, 0.5, 1.0],
    "sweep": "product",
}


@pytest.fixture
def spec(stack):
    return Spec.model_validate(stack | SWEEP)


@pytest.fixture
def window(spec, byte_tokens):
    return read_window(TokenStore.open(byte_tokens).train, spec.model, spec.window)


def plain_loop(spec, window, seed, setting):
    """tsim, diversity and row norms of every X_k, Y_k by definition, in numpy float64: (layers, 2) each."""
    name, placement, scale, a = setting
    config, network = spec.model, Network(spec.model, seed)
    n, heads, width = config.sequence_length, config.heads, config.width // config.heads
    y = network.input(name, window, spec.input_rms).double().numpy()
    c = prefix_average(n)
    angles = np.outer(np.arange(n), config.rope_base ** (-np.arange(0, width, 2) / width))
    found = []

    def rms(rows):
        return rows / np.sqrt((rows**2).mean(1, keepdims=True))

    def turned(rows):
        out = np.empty_like(rows)
        even, odd = rows[:, ::2], rows[:, 1::2]
        out[:, ::2] = even * np.cos(angles) - odd * np.sin(angles)
        out[:, 1::2] = even * np.sin(angles) + odd * np.cos(angles)
        return out

    def attention(z, layer):
        w_q, w_k, w_v = (w.double().numpy() for w in layer.attention.qkv.weight.chunk(3))
        every, value = (scale**0.5 if spec.variance_target == "all" else 1.0), scale**0.5
        mixed = []
        for h in range(heads):
            rows = slice(h * width, (h + 1) * width)
            q, k = turned(z @ w_q[rows].T * every), turned(z @ w_k[rows].T * every)
            scores = np.where(np.tri(n) > 0, q @ k.T / np.sqrt(width), -np.inf)
            p = np.exp(scores - scores.max(1, keepdims=True))
            p /= p.sum(1, keepdims=True)
            mixed.append((p - a * c) @ (z @ w_v[rows].T * value))
        return np.concatenate(mixed, 1) @ layer.attention.output.weight.double().numpy().T * value

    def ffn(z, layer):
        every = scale**0.5 if spec.variance_target == "all" else 1.0
        gate, up = (w.double().numpy() for w in layer.ffn.gate_up.weight.chunk(2))
        u = z @ gate.T * every
        return (u / (1 + np.exp(-u)) * (z @ up.T * every)) @ layer.ffn.down.weight.double().numpy().T * every

    for layers in network.layers([1.0], "all"):
        for branch in (attention, ffn):
            x = rms(y) if placement == "post" else y
            y = x + branch(rms(y), layers[1.0])
            found.append((token_similarity(x), token_similarity(y), token_diversity(x), (y**2).mean(1)))
    tsim_x, tsim_y, tdiv_x, rows = zip(*found, strict=True)
    shape = (config.layers, 2)
    return {
        "tsim_x": np.reshape(tsim_x, shape),
        "tsim_y": np.reshape(tsim_y, shape),
        "tdiv_x": np.reshape(tdiv_x, shape),
        "rows": np.reshape(rows, (*shape, n)),
    }


SETTINGS = [("tokens", "post", 1.0, 0.0), ("tokens", "pre", 2.0, 0.5), ("gaussian", "post", 2.0, 1.0)]


@pytest.mark.parametrize("target", ["all", "value_output"])
@pytest.mark.parametrize("rms", ["unit", "as_trained"])
def test_against_a_plain_loop_in_float64(spec, window, target, rms):
    spec = spec.model_copy(update={"variance_target": target, "input_rms": rms})
    data = measure_seed(spec, window, 5, torch.float64).isel(seed=0)
    for setting in SETTINGS:
        here = data.sel(dict(zip(("input", "placement", "variance_scale", "deescalation"), setting, strict=True)))
        loop = plain_loop(spec, window, 5, setting)
        for name in ("tsim_x", "tsim_y", "tdiv_x"):
            np.testing.assert_allclose(here[name], loop[name], rtol=1e-5, err_msg=f"{name} {setting}")
        np.testing.assert_allclose(here["increment"], loop["tsim_y"] - loop["tsim_x"], rtol=1e-4, atol=1e-7)
        edges = position_bins(24)
        means = [loop["rows"][..., a - 1 : b - 1].mean(-1) for a, b in pairwise(edges)]
        np.testing.assert_allclose(here["row_square"], np.stack(means, -1), rtol=1e-5)
        spread = 1 / np.sqrt(loop["rows"])
        eta = np.abs(spread - spread.mean(-1, keepdims=True)).max(-1) / spread.mean(-1)
        np.testing.assert_allclose(here["rms_spread"], eta, rtol=1e-4)


def test_single_precision_is_enough(spec, window):
    single, double = (measure_seed(spec, window, 0, dtype) for dtype in (torch.float32, torch.float64))
    for name in ("tsim_x", "tsim_y", "tdiv_y", "mean_square", "rms_spread", "row_square", "tsim_normed"):
        np.testing.assert_allclose(single[name], double[name], rtol=3e-5, err_msg=name)
    np.testing.assert_allclose(single["increment"], double["increment"], atol=1e-6)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_against_the_recorder_of_the_trainings(spec, window, placement):
    spec = spec.model_copy(update={"input_rms": "as_trained"})
    config = spec.model.model_copy(update={"placement": placement})
    decoder, recorder = Decoder(config, seed=7), Recorder(config.layers, config.width, placement == "post")
    decoder(window[None], recorder).mean().backward()
    recorder.collect()
    row = recorder.end_step()[None].double().numpy()
    split = row.shape[1] - 2 * (2 * config.layers + 1)
    recorded = unpack(row[:, :split], row[:, split:], np.ones((1, 2 * config.layers)), config.layers, 1).layerwise
    here = measure_seed(spec, window, 7).sel(input="tokens", placement=placement, variance_scale=1, deescalation=0)
    for name in ("tsim_x", "tsim_y", "tdiv_x", "tdiv_y", "rms_spread"):
        np.testing.assert_allclose(here[name][0], recorded[name][0], rtol=2e-5, err_msg=name)


def test_predictions_are_the_closed_forms_at_the_measured_values(spec, window):
    data = measure_seed(spec, window, 0).isel(seed=0).sel(input="tokens", variance_scale=2)
    pre, post = (data.sel(placement=name) for name in ("pre", "post"))
    s = 4 / 9 / pre["mean_square"].sel(sublayer="attention", deescalation=0.5)
    np.testing.assert_allclose(pre["amount"].sel(sublayer="attention", deescalation=0.5), s)
    expected = attention_increment(s, pre["tsim_x"].sel(sublayer="attention", deescalation=0.5), 24, 0.5)
    here = pre["increment_predicted"].sel(sublayer="attention", deescalation=0.5)
    np.testing.assert_allclose(here, expected)
    ffn = post.sel(sublayer="ffn", deescalation=0)
    np.testing.assert_allclose(ffn["increment_predicted"], ffn_increment(4 / 9, ffn["tsim_x"], 24, 2 / 3), rtol=1e-5)
    for placement in (pre, post):
        start = placement["tsim_x"].sel(deescalation=0)[0, 0]
        recursion = depth_recursion(str(placement["placement"].values), 24, 3, 2, start).tsim_y
        np.testing.assert_allclose(placement["tsim_y_recursion"].sel(deescalation=0), recursion)
    a_is_one = post["row_square_predicted"].sel(deescalation=1, sublayer="attention")
    np.testing.assert_allclose(a_is_one, 1)
    assert np.isnan(pre["row_square_predicted"]).all()
    assert np.isnan(post["row_square_predicted"].sel(sublayer="ffn")).all()


def test_the_next_input_is_the_normalized_output(spec, window):
    data = measure_seed(spec, window, 0)
    post, pre = (data.sel(placement=name) for name in ("post", "pre"))
    assert np.array_equal(
        post["tsim_normed"].sel(sublayer="ffn")[..., :-1], post["tsim_x"].sel(sublayer="attention")[..., 1:]
    )
    assert np.array_equal(pre["tsim_y"].sel(sublayer="attention"), pre["tsim_x"].sel(sublayer="ffn"))


def test_axes_vary_one_at_a_time(spec, window):
    spec = spec.model_copy(update={"sweep": "axes"})
    data = measure_seed(spec, window, 0)
    measured = np.isfinite(data["tsim_y"]).all(("input", "placement", "seed", "layer", "sublayer"))
    assert measured.values.tolist() == [[True, True, True], [True, False, False]]
    for name in VARIABLES:
        if name in data.data_vars and name != "row_square_predicted":
            assert np.isnan(data[name].sel(variance_scale=2, deescalation=0.5)).all(), name


def test_chunks_of_a_long_sweep_do_not_change_the_values(spec, window, monkeypatch):
    whole = measure_seed(spec, window, 0, torch.float64)
    monkeypatch.setattr(increments, "CHUNK_TOKENS", 24)
    cut = measure_seed(spec, window, 0, torch.float64)
    for name in whole.data_vars:
        np.testing.assert_allclose(cut[name], whole[name], rtol=1e-8, atol=1e-12, err_msg=name)


@pytest.mark.parametrize("n", [2, 3, 24, 2048])
def test_every_position_is_in_one_bin(n):
    edges = position_bins(n)
    assert edges[0] == 1 and edges[-1] == n + 1
    assert (np.diff(edges) > 0).all()


@pytest.fixture
def command(spec, byte_tokens, tmp_path):
    def run(first, last, tokens=byte_tokens, **changes):
        out = tmp_path / f"increments-{first}-{last}.zarr"
        job = Job(spec.model_copy(update=changes), Parts(tmp_path / "scratch"), range(first, last), tokens)
        run_job(increments, job, out, {"code": "abc"})
        return out

    return run


def test_damaged_tokens_are_rejected(command, byte_tokens, tmp_path, monkeypatch):
    damaged = Path(shutil.copytree(byte_tokens, tmp_path / "tokens"))
    content = bytearray((damaged / "train.bin").read_bytes())
    content[1000] ^= 1
    (damaged / "train.bin").write_bytes(content)
    with pytest.raises(CollapseError, match=r"train\.bin does not have the sha256 of its manifest"):
        command(0, 1, tokens=damaged)


def test_slices_make_one_dataset(spec, command, tmp_path):
    paths = [command(0, 2), command(2, 3)]
    assert not (tmp_path / "scratch").exists()
    out = tmp_path / "increments.zarr"
    join_slices(combine, paths, out, {"code": "def"})
    data = load_dataset(out)
    assert data["seed"].values.tolist() == [0, 1, 2]
    assert spec_of(data) == {**spec.canonical(), "seeds": [0, 3]}
    for name, variable in data.variables.items():
        assert variable.attrs["long_name"], name
        assert "units" in variable.attrs, name
    origin = json.loads(data.attrs["provenance"])
    assert origin["code"] == "def"
    assert [part["code"] for part in origin["slices"]] == ["abc", "abc"]


def test_slices_that_do_not_match_are_rejected(command, tmp_path):
    first, third, other = command(0, 1), command(2, 3), command(1, 2, window=3)
    for slices, sentence in (
        ((first, third), "starts at seed 2, and .* before seed 1"),
        ((first, other), "another config"),
    ):
        with pytest.raises(CollapseError, match=sentence):
            join_slices(combine, slices, tmp_path / "increments.zarr", {})


def test_a_stopped_job_resumes_after_its_finished_seeds(command, monkeypatch):
    first = command(0, 3)
    undisturbed, files = load_dataset(first), tree_digest(first)
    asked = []

    def stopped(spec, window, seed, tick):
        asked.append(seed)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return measure_seed(spec, window, seed, tick=tick)

    monkeypatch.setattr(increments, "measure_seed", stopped)
    with pytest.raises(KeyboardInterrupt):
        command(0, 3)
    out = command(0, 3)
    resumed = load_dataset(out)
    assert asked == [0, 1, 1, 2]
    assert resumed.drop_attrs().identical(undisturbed.drop_attrs())
    assert tree_digest(out) == files
