import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.corpus import frequencies
from collapse.similarity import token_diversity
from collapse.theory import contraction_factor, frequency_distribution, frequency_loss, loss_floor, near_collapse_bound


def test_frequencies_come_from_the_corpus_package():
    assert frequency_loss is frequencies.frequency_loss
    assert frequency_distribution is frequencies.frequency_distribution


@given(st.integers(0, 2**32 - 1), st.integers(1, 6), st.integers(2, 8), st.floats(0.01, 100))
def test_rmsnorm_contracts_a_gradient_by_its_factor(seed, n, d, norm):
    """Theorem 3.6 with the explicit Jacobian: gradients orthogonal to y reach the bound, none exceeds it."""
    rng = np.random.default_rng(seed)
    y = rng.normal(size=d)
    y *= norm / np.linalg.norm(y)
    jacobian = math.sqrt(d) / norm * (np.eye(d) - np.outer(y, y) / norm**2)
    grad = rng.normal(size=(n, d))
    bound = contraction_factor(1.0, norm, d)
    assert np.linalg.norm(grad @ jacobian) <= bound * np.linalg.norm(grad) * (1 + 1e-12)
    across = grad - np.outer(grad @ y, y) / norm**2
    assert np.linalg.norm(across @ jacobian) == pytest.approx(bound * np.linalg.norm(across), rel=1e-9)
    assert contraction_factor(2.5, norm, d) == pytest.approx(2.5 * bound)


def test_contraction_begins_at_the_threshold_of_the_theorem():
    alpha, d = 1.7, 64
    assert contraction_factor(alpha, math.sqrt(d) * alpha, d) == pytest.approx(1)
    assert contraction_factor(alpha, math.sqrt(d) * alpha * 1.01, d) < 1


@given(st.integers(0, 2**32 - 1), st.integers(2, 12), st.integers(2, 6), st.floats(0, 1))
def test_near_collapse_bound_holds_for_every_row(seed, n, d, share):
    rng = np.random.default_rng(seed)
    mean = rng.normal(size=d)
    centred = rng.normal(size=(n, d))
    centred -= centred.mean(0)
    delta = share * 0.999 / (4 * n + 1)
    centred *= math.sqrt(n * delta / (1 - delta)) * np.linalg.norm(mean) / np.linalg.norm(centred)
    y = mean + centred
    assert token_diversity(y) == pytest.approx(delta, rel=1e-6, abs=1e-15)
    c0 = math.sqrt(d) / np.linalg.norm(mean)
    largest = (math.sqrt(d) / np.linalg.norm(y, axis=1)).max()
    assert largest <= near_collapse_bound(delta, n, c0) * (1 + 1e-12)
    assert near_collapse_bound(0, n, c0) == c0


def test_near_collapse_bound_at_the_edge_of_its_domain():
    n = np.array([1, 2, 2048])
    np.testing.assert_allclose(near_collapse_bound(1 / (4 * n + 1), n, 3.0), 6.0)


@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 5), st.floats(0, 10), st.floats(0, 3))
def test_no_loss_is_below_its_floor(seed, n, v, size, spread):
    rng = np.random.default_rng(seed)
    d = 4
    x, head = rng.normal(size=d) + spread * rng.normal(size=(n, d)), size * rng.normal(size=(d, v))
    labels = rng.integers(0, v, n)
    logits = x @ head
    top = logits.max(1, keepdims=True)
    log_z = top[:, 0] + np.log(np.exp(logits - top).sum(1))
    loss = (log_z - logits[np.arange(n), labels]).mean()
    floor = loss_floor(frequency_loss(labels), np.linalg.norm(x - x.mean(0)), np.linalg.norm(head, 2), n)
    assert loss >= floor - 1e-9


def test_the_floor_is_reached_at_exact_collapse():
    labels = np.array([0, 0, 1, 2])
    logits = np.log(frequency_distribution(labels, 3))
    assert -logits[labels].mean() == pytest.approx(loss_floor(frequency_loss(labels), 0.0, 7.0, 4), rel=1e-14)
    assert loss_floor(6.0, 0.5, 4.0, 16) == pytest.approx(5.0)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: contraction_factor(-1, 1, 4), r"alpha must .* got -1\.0"),
        (lambda: contraction_factor(1, 0, 4), r"residual_norm must be positive, got 0\.0"),
        (lambda: near_collapse_bound(0.2, [1, 2], 1), r"delta must be finite and in \[0, 0\.111111\], got 0\.2"),
        (lambda: loss_floor(1, -1, 1, 4), r"epsilon must .* got -1\.0"),
        (lambda: loss_floor(1, 1, 1, 0), r"n must .* got 0\.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
