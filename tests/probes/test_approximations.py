"""The split of the gap of the attention formula against explicit matrices in float64, and the whole job."""

import numpy as np
import pytest
import torch

from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError
from collapse.probes import approximations, increments
from collapse.probes.approximations import (
    Site,
    Spec,
    chosen_layers,
    draw_increments,
    measure_network,
    measure_site,
    split_rows,
)
from collapse.probes.increments import measure_seed
from collapse.probes.network import Network, attention_weights, prefix_mean, read_window
from collapse.similarity import token_similarity
from collapse.store.dataset import load_dataset, spec_of
from collapse.store.job import Job, run_job
from collapse.store.parts import Parts
from collapse.theory.attention import attention_increment, prefix_average

SPLIT = {
    "placements": ["post", "pre"],
    "variance_scales": [1.0, 4.0],
    "variance_target": "all",
    "seed": 0,
    "weight_draws": 6,
    "networks": 2,
    "layer_stride": 2,
}


@pytest.fixture
def spec(stack):
    return Spec.model_validate(stack | SPLIT)


@pytest.fixture
def window(spec, byte_tokens):
    return read_window(TokenStore.open(byte_tokens).train, spec.model, spec.window)


@pytest.fixture(autouse=True)
def no_gradients():
    with torch.no_grad():
        yield


@pytest.fixture
def site(spec):
    """An attention sublayer with float64 inputs of unequal rows, and normalized inputs of the branch."""

    def make(width=32, length=24, scale=1.0, x=None, seed=3, dtype=torch.float64):
        shape = {"width": width, "sequence_length": length}
        network = Network(spec.model.model_copy(update=shape), seed, dtype)
        attention = network.draw_layer().attention
        attention.qkv.weight.mul_(scale**0.5)
        rng = np.random.default_rng(seed)
        rows = rng.normal(size=(length, width)) * np.linspace(0.5, 2, length)[:, None] + 0.7 * rng.normal(size=width)
        x = torch.from_numpy(rows if x is None else x).to(dtype)
        return Site(attention, x, network.normalize(x[None], None)[1][0]), network.rotary

    return make


def brute_force(site, table, scale, draws, rng):
    """Increments of all draws with both signs of W_V, by explicit matrices: softmax P, C_n, and the ratio."""
    x, z = site.x.double().numpy(), site.read.double().numpy()
    n, d = x.shape
    p = attention_weights(site.attention, site.read, table).double().numpy()
    c = np.stack([prefix_average(n)] * len(p))
    pi = np.full((n, n), 1 / n)
    found = []
    for _ in range(draws):
        values, output = rng.standard_normal((2, d, d), np.float32).astype(float) * (scale / (3 * d)) ** 0.5
        for weights in (p, c):
            for sign in (1, -1):
                heads = np.split(sign * values, len(p), axis=1)
                y = x + np.concatenate([a @ z @ v for a, v in zip(weights, heads, strict=True)], 1) @ output
                found.append(token_similarity(y) - token_similarity(x))
    true, prefix = np.moveaxis(np.reshape(found, (draws, 2, 2)).mean(-1), 1, 0)
    total_variance = d * d * (scale / (3 * d)) ** 2  # d sigma_W^2, sigma_W^2 = d sigma_V^2 sigma_O^2
    gram = c[0] @ z @ z.T @ c[0].T
    above = np.trace(pi @ x @ x.T) + total_variance * np.trace(pi @ gram)
    ratio = above / (np.trace(x @ x.T) + total_variance * np.trace(gram)) - token_similarity(x)
    return true, prefix, ratio


@pytest.mark.parametrize("scale", [1.0, 4.0])
@pytest.mark.parametrize("target", ["all", "value_output"])
def test_against_explicit_matrices(site, scale, target):
    given, table = site(scale=scale if target == "all" else 1.0)
    here = measure_site(given, table, scale, 5, np.random.default_rng(1))
    true, prefix, ratio = brute_force(given, table, scale, 5, np.random.default_rng(1))
    for name, values in (("increment_true", true), ("increment_prefix", prefix), ("gap_prefix", true - prefix)):
        assert here[name] == pytest.approx(values.mean(), rel=1e-9)
        assert here[f"{name}_se"] == pytest.approx(values.std(ddof=1) / 5**0.5, rel=1e-9)
    assert here["increment_ratio"] == pytest.approx(ratio, rel=1e-9)
    assert here["gap_ratio_se"] == here["increment_prefix_se"]
    x = given.x.numpy()
    t, mean_square = token_similarity(x), (x**2).mean()
    assert here["tsim_x"] == pytest.approx(t)
    assert here["mean_square"] == pytest.approx(mean_square)
    assert here["amount"] == pytest.approx(scale**2 / 9 / mean_square)
    assert here["increment_formula"] == pytest.approx(attention_increment(scale**2 / 9 / mean_square, t, 24))
    assert here["gap_prefix"] != 0


def test_the_gaps_add_up(site):
    for scale in (1.0, 4.0):
        here = measure_site(*site(scale=scale), scale, 4, np.random.default_rng(0))
        gaps = here["gap_prefix"] + here["gap_ratio"] + here["gap_equal"]
        assert gaps == pytest.approx(here["increment_true"] - here["increment_formula"], rel=0, abs=1e-16)


def test_single_precision_is_enough_near_collapse(site):
    """For increments of 1e-5 every row is nearly the mean row, and the difference of two tsim would cancel."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=32) + 1e-2 * rng.normal(size=(24, 32))
    double, single = (
        measure_site(*site(x=x, dtype=dtype), 1.0, 8, np.random.default_rng(1))
        for dtype in (torch.float64, torch.float32)
    )
    assert 1e-6 < double["increment_true"] < 1e-4
    for name in ("increment_true", "increment_prefix", "increment_ratio"):
        assert single[name] == pytest.approx(double[name], rel=1e-3), name
    assert single["gap_prefix"] == pytest.approx(double["gap_prefix"], abs=1e-8)


@pytest.mark.parametrize(("dtype", "rounding"), [(torch.float64, 1e-14), (torch.float32, 1e-6)])
def test_uniform_attention_leaves_no_prefix_gap(site, dtype, rounding):
    given, table = site(dtype=dtype)
    given.attention.qkv.weight.chunk(3)[0].zero_()  # W_Q = 0: P is C_n
    here = measure_site(given, table, 4.0, 6, np.random.default_rng(0))
    assert abs(here["gap_prefix"]) < rounding
    assert here["gap_prefix_se"] < rounding
    assert here["increment_true_se"] > 1e-3


@pytest.mark.parametrize("t", [0.1, 0.5, 0.95])
def test_an_equally_correlated_input_leaves_no_gap_of_equal_correlation(site, t):
    n, d = 12, 16
    common = (t * n - 1) / (n - 1)
    gram = d * ((1 - common) * np.eye(n) + common)
    basis = np.linalg.qr(np.random.default_rng(0).normal(size=(d, n)))[0]
    given, table = site(width=d, length=n, x=np.linalg.cholesky(gram) @ basis.T)
    here = measure_site(given, table, 2.0, 2, np.random.default_rng(0))
    assert here["tsim_x"] == pytest.approx(t)
    assert here["increment_formula"] > 1e-3
    assert here["gap_equal"] == pytest.approx(0, abs=1e-13)


def equally_spread(width, draws, repeats=1):
    """Increments with C_n for an orthogonal input of 6 rows, and the ratio of expectations."""
    x = width**0.5 * np.eye(6, width)
    start = split_rows(torch.from_numpy(x))
    prefix = split_rows(prefix_mean(torch.from_numpy(x)))
    found = [
        draw_increments(start, prefix[None], prefix, draws, 3.0, np.random.default_rng(seed))[1]
        for seed in range(repeats)
    ]
    return np.array(found), attention_increment(1.0, 1 / 6, 6)


def test_the_mean_over_draws_tends_to_the_ratio_of_expectations_as_the_width_grows():
    gaps, errors = [], []
    for width in (6, 24, 96):
        ((increments,), ratio) = equally_spread(width, 4000)
        gaps.append(abs(increments.mean() / ratio - 1))
        errors.append(increments.std() / 4000**0.5 / ratio)
    assert gaps[0] > 10 * errors[0]
    assert gaps[1] < gaps[0] / 2
    assert gaps[2] < gaps[0] / 4 + 4 * errors[2]


def test_standard_errors_cover():
    found, _ = equally_spread(8, 16, repeats=400)
    errors = found.std(1, ddof=1) / 4
    inside = np.abs(found.mean(1) - found.mean()) < 2.13 * errors  # Student's t, 15 degrees of freedom: 95 %
    assert 0.92 < inside.mean() < 0.98


def test_chosen_layers(spec):
    deep = spec.model.model_copy(update={"layers": 48})
    chosen = chosen_layers(spec.model_copy(update={"model": deep, "layer_stride": 5}))
    assert chosen == [1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 48]
    assert chosen_layers(spec) == [1, 2, 3]
    one = spec.model.model_copy(update={"layers": 1})
    assert chosen_layers(spec.model_copy(update={"model": one})) == [1]


@pytest.mark.parametrize("target", ["all", "value_output"])
def test_sites_agree_with_the_increments(stack, spec, window, target):
    spec = spec.model_copy(update={"variance_target": target})
    sweep = {"inputs": ["tokens"], "deescalations": [0.0], "sweep": "product"}
    sweep |= {key: getattr(spec, key) for key in ("placements", "variance_scales", "variance_target")}
    others = measure_seed(increments.Spec.model_validate(stack | sweep), window, 1, torch.float64)
    others = others.squeeze(("input", "deescalation")).sel(sublayer="attention")
    for layer, data in measure_network(spec, window, 1, [1, 3], torch.float64):
        for name in ("tsim_x", "mean_square", "amount"):
            here, there = data[name].sel(layer=layer), others[name].sel(layer=layer)
            np.testing.assert_allclose(here, there, rtol=1e-6, err_msg=name)
        formula = others["increment_predicted"].sel(layer=layer)
        np.testing.assert_allclose(data["increment_formula"].sel(layer=layer), formula, rtol=1e-6)


def test_queries_and_keys_are_those_of_the_network(spec, window):
    ((_, data),) = measure_network(spec, window, 0, [1], torch.float64)
    network = Network(spec.model, 0, torch.float64)
    x = network.input("tokens", window, "unit")
    (layers, *_) = network.layers([1.0, 4.0], "all")
    true, prefix, _ = brute_force(
        Site(layers[4.0].attention, x, x), network.rotary, 4.0, 6, np.random.default_rng([0, 0, 1])
    )
    here = data.sel(placement="post", variance_scale=4, seed=0, layer=1)
    assert float(here["gap_prefix"]) == pytest.approx((true - prefix).mean(), rel=1e-5)
    assert float(here["increment_true"]) == pytest.approx(true.mean(), rel=1e-6)


def test_draws_do_not_depend_on_the_other_layers_of_a_measurement(spec, window):
    every = dict(measure_network(spec, window, 1, [1, 2, 3]))
    ((layer, alone),) = measure_network(spec, window, 1, [3])
    assert layer == 3
    assert alone.identical(every[3])
    assert not np.allclose(every[2]["gap_ratio"], every[3]["gap_ratio"])


@pytest.fixture
def command(spec, byte_tokens, tmp_path):
    def run(**changes):
        out = tmp_path / "probes" / "approximations.zarr"
        job = Job(spec.model_copy(update=changes), Parts(tmp_path / "scratch"), tokens=byte_tokens)
        run_job(approximations, job, out, {"code": "abc"})
        return out

    return run


def test_the_job_publishes_every_variable_with_a_description(spec, command, tmp_path):
    data = load_dataset(command())
    assert spec_of(data) == spec.canonical()
    assert dict(data.sizes) == {"placement": 2, "variance_scale": 2, "seed": 2, "layer": 3}
    assert not (tmp_path / "scratch").exists()
    for name, variable in data.variables.items():
        assert variable.attrs["long_name"], name
        assert variable.attrs["defined_in"], name
    for name, variable in data.data_vars.items():
        assert np.isfinite(variable).all(), name
        assert variable.dims == ("placement", "variance_scale", "seed", "layer"), name


def test_a_stopped_job_resumes_after_its_finished_layers(command, monkeypatch):
    undisturbed = load_dataset(command())
    sites, original = [], measure_site

    def stopped(*arguments):
        sites.append(arguments)
        if len(sites) == 14:
            raise KeyboardInterrupt
        return original(*arguments)

    monkeypatch.setattr(approximations, "measure_site", stopped)
    with pytest.raises(KeyboardInterrupt):
        command()
    resumed = load_dataset(command())
    assert len(sites) == 14 + 12  # Four sites per layer: the job kept three layers of the first network.
    assert resumed.identical(undisturbed)


def test_a_window_beyond_the_corpus_is_rejected(command):
    with pytest.raises(CollapseError, match=r"lower probe\.window"):
        command(window=10**6)
