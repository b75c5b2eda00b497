"""Monte Carlo against the quadrature, and the job: bounded memory, and the same numbers after it resumes."""

import tracemalloc

import numpy as np
import pytest

from collapse.store.dataset import load_dataset, spec_of
from collapse.store.job import Job, run_job
from collapse.store.parts import Parts
from collapse.theory import moment_sampling
from collapse.theory.ffn import swiglu_moment
from collapse.theory.moment_sampling import BLOCK, RHO, Spec, block_sums, measure, sample_moments, silu

VARIANCES = [1 / 3, 4 / 3, 30.0]


def spec(draws=200_000, seed=0, variances=VARIANCES):
    return Spec(preact_variances=variances, seed=seed, draws=draws)


def test_silu():
    x = np.array([-800.0, -2.0, 0.0, 1.0, 800.0])
    np.testing.assert_allclose(silu(x), [0, -2 / (1 + np.exp(2)), 0, 1 / (1 + np.exp(-1)), 800], rtol=1e-14)


def test_monte_carlo_agrees_with_the_quadrature(tmp_path):
    data = measure(Job(spec(), Parts(tmp_path)))
    assert data["moment"].dims == ("preact_variance", "rho")
    assert data["rho"].values[[0, -1]].tolist() == [0, 1]
    np.testing.assert_array_equal(data["moment"], swiglu_moment(RHO, np.array(VARIANCES)[:, None]))
    error = data["moment_sampled_se"]
    assert (error > 0).all()
    assert (error < 0.03 * data["moment"].isel(rho=-1)).all()
    assert (np.abs(data["moment_sampled"] - data["moment"]) < 4 * error).all()
    assert (data["moment_sampled"] != data["moment"]).all()


def test_means_and_standard_errors_agree_with_the_draws(tmp_path):
    draws = BLOCK + 100
    mean, error = sample_moments(spec(draws, seed=5), Parts(tmp_path))
    z = np.concatenate([np.random.default_rng([5, block]).standard_normal((2, BLOCK)) for block in (0, 1)], 1)
    u, independent = z[:, :draws]
    for at, variance in enumerate(VARIANCES):
        for point in (0, 17, 40):
            v = RHO[point] * u + np.sqrt(1 - RHO[point] ** 2) * independent
            product = silu(variance**0.5 * u) * silu(variance**0.5 * v)
            assert mean[at, point] == pytest.approx(product.mean(), rel=1e-12)
            assert error[at, point] == pytest.approx(product.std(ddof=1) / draws**0.5, rel=1e-9)


def test_standard_errors_cover(tmp_path):
    exact = swiglu_moment(RHO, 1 / 3)
    scores = []
    for seed in range(200):
        mean, error = sample_moments(spec(2000, seed, [1 / 3]), Parts(tmp_path / str(seed)))
        scores.append(((mean - exact) / error)[0])
    inside = (np.abs(scores) < 1.96).mean(0)
    assert (inside > 0.88).all()
    assert (inside < 0.99).all()


def test_a_single_draw_has_no_standard_error(tmp_path):
    mean, error = sample_moments(spec(1), Parts(tmp_path))
    assert np.isfinite(mean).all()
    assert np.isnan(error).all()


def test_results_do_not_depend_on_how_often_sums_are_saved(tmp_path, monkeypatch):
    whole = measure(Job(spec(9 * BLOCK - 7), Parts(tmp_path / "whole")))
    monkeypatch.setattr(moment_sampling, "PART_BLOCKS", 2)
    assert measure(Job(spec(9 * BLOCK - 7), Parts(tmp_path / "cut"))).identical(whole)


def test_memory_does_not_grow_with_the_draws(tmp_path):
    def peak(blocks):
        tracemalloc.start()
        sample_moments(spec(blocks * BLOCK), Parts(tmp_path / str(blocks)))
        found = tracemalloc.get_traced_memory()[1]
        tracemalloc.stop()
        return found

    peak(1)  # imports
    assert peak(24) < 1.2 * peak(2)


@pytest.fixture
def command(tmp_path):
    def run(spec):
        out = tmp_path / "theory" / "swiglu_moment.zarr"
        run_job(moment_sampling, Job(spec, Parts(tmp_path / "scratch")), out, {"code": "abc"})
        return load_dataset(out)

    return run


def test_a_stopped_job_resumes_and_gets_the_same_numbers(command, tmp_path, monkeypatch):
    job = spec(7 * BLOCK)
    monkeypatch.setattr(moment_sampling, "PART_BLOCKS", 2)
    undisturbed = command(job)
    assert not (tmp_path / "scratch").exists()
    asked = []

    def stopped(variances, seed, block, draws):
        asked.append(block)
        if len(asked) == 6:
            raise KeyboardInterrupt
        return block_sums(variances, seed, block, draws)

    monkeypatch.setattr(moment_sampling, "block_sums", stopped)
    with pytest.raises(KeyboardInterrupt):
        command(job)
    resumed = command(job)
    assert asked == [0, 1, 2, 3, 4, 5, 4, 5, 6]
    assert resumed.identical(undisturbed)
    assert spec_of(resumed) == job.canonical()
    for name, variable in resumed.variables.items():
        assert variable.attrs["long_name"], name
