import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays
from scipy import stats

from collapse.corpus.frequencies import entropy, frequency_distribution, frequency_loss, frequency_loss_per_sequence

labels = arrays(np.int64, array_shapes(min_dims=2, max_dims=2, max_side=40), elements=st.integers(0, 30))


@given(labels)
def test_distribution(y):
    p = frequency_distribution(y, 31)
    assert p.shape == (31,) and p.dtype == np.float64
    assert p.sum() == pytest.approx(1, abs=1e-12)
    assert all(p[i] == pytest.approx((y == i).sum() / y.size) for i in range(31))
    assert np.array_equal(frequency_distribution(y), p[: y.max() + 1])


@given(labels)
def test_losses_agree_with_scipy(y):
    pooled = stats.entropy(np.unique(y, return_counts=True)[1])
    rows = [stats.entropy(np.unique(row, return_counts=True)[1]) for row in y]
    assert frequency_loss(y) == pytest.approx(pooled, abs=1e-12)
    assert frequency_loss_per_sequence(y) == pytest.approx(np.mean(rows), abs=1e-12)


@given(labels)
def test_bounds(y):
    pooled, per_sequence = frequency_loss(y), frequency_loss_per_sequence(y)
    assert 0 <= pooled <= math.log(len(np.unique(y))) + 1e-12
    assert 0 <= per_sequence <= pooled + 1e-12, "pooling mixes, and entropy is concave"


@given(arrays(np.float64, st.integers(1, 50), elements=st.floats(0, 1e6)).filter(lambda w: w.sum() > 1e-6))
def test_entropy_takes_counts_and_probabilities(weights):
    found = entropy(weights)
    assert 0 <= found <= math.log(len(weights)) + 1e-9
    assert found == pytest.approx(entropy(weights / weights.sum()), abs=1e-9)


def test_known_values():
    assert entropy([1, 1, 1, 1]) == pytest.approx(math.log(4))
    assert entropy([5, 0, 0]) == 0.0
    y = np.array([[7, 7, 7, 7], [1, 2, 3, 4]])
    assert frequency_loss_per_sequence(y) == pytest.approx(math.log(4) / 2)
    assert frequency_loss(np.array([[0, 1], [0, 1]])) == pytest.approx(math.log(2))


def test_large_ids_count_like_small_ones():
    y = np.random.default_rng(0).integers(0, 50, (16, 64))
    assert frequency_loss_per_sequence(y + 70_000) == pytest.approx(frequency_loss_per_sequence(y), abs=1e-12)


def test_bad_input():
    with pytest.raises(ValueError, match="no labels"):
        frequency_loss(np.zeros((0, 4), np.int64))
    with pytest.raises(ValueError, match="no labels"):
        frequency_loss_per_sequence(np.zeros((0, 4), np.int64))
    with pytest.raises(ValueError, match="outside the vocabulary of 5"):
        frequency_distribution(np.array([5]), 5)
    for weights in ([0, 0], [1, -1], [-1, 3], [float("nan")], [float("inf")], []):
        with pytest.raises(ValueError, match="weights"):
            entropy(weights)


def test_accepts_lists_and_rejects_values_that_are_not_labels():
    assert frequency_loss([1, 2]) == pytest.approx(math.log(2))
    assert frequency_distribution([[0, 1], [1, 1]]).tolist() == [0.25, 0.75]
    with pytest.raises(ValueError, match="label 3 is outside the vocabulary of 2"):
        frequency_distribution([3], 2)
    for wrong in ([0.5], [-1, 2], ["a"]):
        with pytest.raises(ValueError, match="labels must be integers >= 0"):
            frequency_loss(wrong)
