"""The concentration of xi against explicit matrices and the formulas of the lemmas, and the job."""

import numpy as np
import pytest
from scipy.stats import ks_2samp

from collapse.similarity import token_similarity
from collapse.store.dataset import load_dataset, spec_of
from collapse.store.job import Job, run_job
from collapse.store.parts import Parts
from collapse.theory import concentration as module
from collapse.theory.attention import prefix_average
from collapse.theory.concentration import BRANCHES, MULTIPLES, Spec, measure_width, sample, update

N = 128


def explicit(given, matrices):
    """xi_1 and xi_2 of Y = X + A W with an explicit projection Pi, (2, draws)."""
    x, pi = given.x, np.full((N, N), 1 / N)
    ys = [x + given.a @ w for w in matrices]
    return np.array(
        [
            [np.linalg.norm(pi @ y) ** 2 / np.linalg.norm(pi @ x) ** 2 for y in ys],
            [np.linalg.norm(y) ** 2 / np.linalg.norm(x) ** 2 for y in ys],
        ]
    )


def draw(given, draws, seed=1):
    shape = (draws, given.a.shape[1], given.x.shape[1])
    return np.random.default_rng(seed).normal(0, given.variance**0.5, shape)


@pytest.mark.parametrize("width", [64, 200])
def test_the_update_agrees_with_the_lemmas(width):
    attention, ffn = (update(branch, width, 3) for branch in BRANCHES)
    assert np.array_equal(attention.x, ffn.x)
    np.testing.assert_allclose((attention.x**2).sum(1), width)
    assert token_similarity(attention.x) == pytest.approx(0.3, abs=0.01)
    np.testing.assert_allclose(attention.a, prefix_average(N) @ attention.x)
    assert attention.variance == pytest.approx(width * (1 / (3 * width)) ** 2)
    assert ffn.a.shape == (N, 3 * width)
    assert ffn.variance == pytest.approx(1 / (9 * width))
    assert np.isnan(attention.premise).all()
    assert (ffn.premise > 0.5).all()
    assert (ffn.premise < 2).all()


def test_the_premise_is_relative_to_the_expectation_over_the_inner_matrices():
    found = np.array([update("ffn", 32, seed).premise for seed in range(60)])
    for quantity in range(2):
        mean, error = found[:, quantity].mean(), found[:, quantity].std() / 60**0.5
        assert abs(mean - 1) < 4 * error
        assert error < 0.1


@pytest.mark.parametrize("branch", BRANCHES)
@pytest.mark.parametrize("width", [16, 160])
def test_samples_agree_with_explicit_matrices(branch, width):
    """`sample` draws W in the right singular basis of A: the same V^T W gives the same xi."""
    given = update(branch, width, 0)
    matrices = draw(given, 3)

    class Prepared:
        def normal(self, mean, deviation, shape):
            assert (mean, deviation) == (0, given.variance**0.5)
            rotated = np.linalg.svd(given.a, full_matrices=False)[2] @ matrices
            assert shape == rotated.shape
            return rotated

    np.testing.assert_allclose(sample(given, 3, Prepared()), explicit(given, matrices), rtol=1e-10)


@pytest.mark.parametrize("branch", BRANCHES)
def test_samples_have_the_distribution_of_explicit_draws(branch):
    given = update(branch, 16, 0)
    ours, theirs = sample(given, 4000, np.random.default_rng(2)), explicit(given, draw(given, 4000))
    for a, b in zip(ours, theirs, strict=True):
        assert ks_2samp(a, b).pvalue > 0.01


def test_the_batch_size_does_not_change_the_samples(monkeypatch):
    given = update("ffn", 24, 0)
    whole = sample(given, 50, np.random.default_rng(0))
    monkeypatch.setattr(module, "BATCH_NUMBERS", 7 * 24 * 72)
    np.testing.assert_allclose(sample(given, 50, np.random.default_rng(0)), whole, rtol=1e-12)


@pytest.mark.parametrize("branch", BRANCHES)
def test_every_formula_of_the_lemmas(branch):
    width, draws = 40, 3000
    given = update(branch, width, 0, 2)
    data = measure_width(branch, width, 0, 4 * draws + 3).sel(realization=2).isel(branch=0, width=0)
    x, a, var, pi = given.x, given.a, given.variance, np.full((N, N), 1 / N)
    xi = sample(given, draws, np.random.default_rng([0, width, 2, 2 + BRANCHES.index(branch)]))
    for quantity, (xx, aa, values) in {"xi_1": (pi @ x, pi @ a, xi[0]), "xi_2": (x, a, xi[1])}.items():
        here = data.sel(quantity=quantity)
        x_norm, a_norm = np.linalg.norm(xx), np.linalg.norm(aa)
        expected = 1 + var * width * a_norm**2 / x_norm**2
        assert float(here["expected"]) == pytest.approx(expected)
        variance = 4 * var * np.linalg.norm(aa.T @ xx) ** 2 + 2 * width * var**2 * np.linalg.norm(aa @ aa.T) ** 2
        assert float(here["deviation_expected"]) == pytest.approx(variance**0.5 / x_norm**2)
        assert float(here["mean"]) == pytest.approx(values.mean())
        assert float(here["deviation"]) == pytest.approx(values.std(ddof=1))
        assert float(here["mean_se"]) == pytest.approx(values.std(ddof=1) / draws**0.5)
        for multiple in MULTIPLES:
            epsilon = multiple * values.std(ddof=1)
            point = here.sel(threshold=multiple)
            assert float(point["epsilon"]) == pytest.approx(epsilon)
            assert float(point["tail"]) == (np.abs(values - expected) >= epsilon).mean()
            rate = min(
                epsilon**2 * x_norm**2 / (var * a_norm**2),
                epsilon**2 * x_norm**4 / (width * var**2 * a_norm**4),
                epsilon * x_norm**2 / (var * a_norm**2),
            )
            assert float(point["rate"]) == pytest.approx(rate)
        c = float(here["exponent"])
        counted = here.where(here["tail"] * draws >= 10, drop=True)
        slack = (4 * np.exp(-c * counted["rate"]) / counted["tail"]).values
        assert c > 0
        assert slack.min() == pytest.approx(1)
        assert len(counted["threshold"]) >= 9


@pytest.fixture(scope="module")
def grown(tmp_path_factory):
    spec = Spec(widths=[32, 64, 128, 256, 512], seed=0, draws=2000)
    return module.measure(Job(spec, Parts(tmp_path_factory.mktemp("parts"))))


def test_means_are_the_conditional_expectations(grown):
    sizes = {"branch": 2, "quantity": 2, "width": 5, "realization": 4, "threshold": len(MULTIPLES)}
    assert dict(grown.sizes) == sizes
    assert (np.abs(grown["mean"] - grown["expected"]) < 4 * grown["mean_se"]).all()
    assert (grown["mean_se"] > 0).all()
    assert (np.abs(grown["deviation"] / grown["deviation_expected"] - 1) < 0.15).all()


def test_deviations_fall_like_the_root_of_the_width(grown):
    for name in ("deviation", "deviation_expected"):
        logs = np.log(grown[name]).mean("realization").transpose("width", ...).values.reshape(5, -1)
        slopes = np.polyfit(np.log(grown["width"]), logs, 1)[0]
        assert (np.abs(slopes + 0.5) < 0.12).all(), name


def test_realizations_are_independent(grown):
    """Realizations of X, W_1 and W_3 differ by more than the finite number of draws explains."""
    exact = np.log(grown["deviation_expected"]).std("realization")
    assert (exact.sel(branch="ffn") > 0).all()
    assert float(exact.sel(branch="ffn", width=32).max()) > 0.03
    assert float(np.log(grown["deviation"]).std("realization").min()) > 0.001


def test_the_constant_does_not_fall_with_the_width(grown):
    exponent = grown["exponent"].mean("realization")
    assert (exponent.sel(width=512) > 0.7 * exponent.sel(width=32)).all()


@pytest.fixture
def command(tmp_path):
    def run(spec):
        out = tmp_path / "theory" / "concentration.zarr"
        run_job(module, Job(spec, Parts(tmp_path / "scratch")), out, {"code": "abc"})
        return load_dataset(out)

    return run


def test_a_stopped_job_resumes_after_its_finished_widths(command, tmp_path, monkeypatch):
    spec = Spec(widths=[8, 16], seed=1, draws=100)
    undisturbed = command(spec)
    assert not (tmp_path / "scratch").exists()
    asked = []

    def stopped(branch, width, seed, draws):
        asked.append((branch, width))
        if len(asked) == 3:
            raise KeyboardInterrupt
        return measure_width(branch, width, seed, draws)

    monkeypatch.setattr(module, "measure_width", stopped)
    with pytest.raises(KeyboardInterrupt):
        command(spec)
    resumed = command(spec)
    assert asked == [("attention", 8), ("attention", 16), ("ffn", 8), ("ffn", 8), ("ffn", 16)]
    assert resumed.identical(undisturbed)
    assert spec_of(resumed) == spec.canonical()
    for name, variable in resumed.variables.items():
        assert variable.attrs["long_name"], name
