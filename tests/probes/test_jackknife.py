import numpy as np
import pytest

from collapse.probes.jackknife import jackknife_error


def leave_out(blocks, estimate):
    return [estimate(np.concatenate([*blocks[:b], *blocks[b + 1 :]])) for b in range(len(blocks))]


def test_for_a_mean_it_gives_the_standard_error_of_the_mean():
    x = np.random.default_rng(0).normal(size=(12, 3))
    found = jackknife_error(x.mean(0), leave_out(np.split(x, 12), lambda y: y.mean(0)), np.ones(12))
    np.testing.assert_allclose(found, x.std(0, ddof=1) / 12**0.5)


def test_for_equal_blocks_it_gives_the_plain_formula():
    x = np.random.default_rng(1).normal(size=40)
    without = np.array(leave_out(np.split(x, 8), np.std))
    found = jackknife_error(np.std(x), without, [5] * 8)
    assert found == pytest.approx((7 / 8 * ((without - without.mean()) ** 2).sum()) ** 0.5)


def test_for_unequal_blocks_it_gives_the_spread_of_the_estimate():
    rng = np.random.default_rng(2)
    sizes = [30, 20, 30, 10, 30, 20]
    errors, estimates = [], []
    for _ in range(400):
        blocks = np.split(rng.normal(3, 1, size=140), np.cumsum(sizes)[:-1])
        estimate = lambda y: y.mean() ** 2  # noqa: E731
        estimates.append(estimate(np.concatenate(blocks)))
        errors.append(jackknife_error(estimates[-1], leave_out(blocks, estimate), sizes))
    assert np.sqrt(np.mean(np.square(errors))) == pytest.approx(np.std(estimates), rel=0.1)


def test_for_one_block_it_gives_nan():
    assert np.isnan(jackknife_error([1.0, 2.0], np.full((1, 2), np.nan), [4])).tolist() == [True, True]
