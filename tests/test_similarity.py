import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from collapse.similarity import token_diversity, token_similarity

SEQUENCES = array_shapes(min_dims=2, max_dims=4, min_side=1, max_side=6).flatmap(
    lambda shape: arrays(np.float64, shape, elements=st.floats(-100, 100, allow_subnormal=False))
)


def nonzero(x: np.ndarray) -> np.ndarray:
    """The sequences with one entry made 1, so that none is all zeros."""
    x = np.where(np.abs(x) < 1e-3, 0.0, x)
    x[..., 0, 0] = 1.0
    return x


@given(SEQUENCES.map(nonzero))
def test_is_the_share_of_the_mean_row_matrix(x: np.ndarray) -> None:
    mean_rows = np.broadcast_to(x.mean(-2, keepdims=True), x.shape)
    expected = (mean_rows**2).sum((-2, -1)) / (x**2).sum((-2, -1))
    np.testing.assert_allclose(token_similarity(x), expected, rtol=1e-10, atol=1e-12)
    assert token_similarity(x).shape == x.shape[:-2]


@given(SEQUENCES.map(nonzero))
def test_similarity_and_diversity_sum_to_one(x: np.ndarray) -> None:
    similarity, diversity = token_similarity(x), token_diversity(x)
    np.testing.assert_allclose(similarity + diversity, 1, rtol=1e-10)
    for values in (similarity, diversity):
        assert ((values >= 0) & (values <= 1)).all()


@given(SEQUENCES.map(nonzero), st.floats(1e-3, 1e3))
def test_scale_and_order_of_rows_do_not_matter(x: np.ndarray, scale: float) -> None:
    np.testing.assert_allclose(token_similarity(scale * x[..., ::-1, :]), token_similarity(x), rtol=1e-9, atol=1e-12)


@given(SEQUENCES.map(nonzero))
def test_torch_gives_what_numpy_gives(x: np.ndarray) -> None:
    for function in (token_similarity, token_diversity):
        np.testing.assert_allclose(function(torch.from_numpy(x)).numpy(), function(x), rtol=1e-9, atol=1e-12)


def test_equal_rows_and_independent_rows() -> None:
    rng = np.random.default_rng(0)
    row = rng.standard_normal(32)
    assert token_similarity(np.tile(row, (16, 1))) == pytest.approx(1)
    assert token_diversity(np.tile(row, (16, 1))) < 1e-30
    assert token_similarity(rng.standard_normal((64, 128, 512))).mean() == pytest.approx(1 / 128, rel=0.02)


def test_rows_of_equal_norm_have_the_mean_cosine_that_it_implies() -> None:
    x = np.random.default_rng(1).standard_normal((20, 8)) + 1
    x /= np.linalg.norm(x, axis=-1, keepdims=True)
    n = len(x)
    mean_cosine = ((x @ x.T).sum() - n) / (n * (n - 1))
    assert (n * token_similarity(x) - 1) / (n - 1) == pytest.approx(mean_cosine)


@pytest.mark.parametrize("kind", [np.asarray, torch.from_numpy])
def test_diversity_does_not_cancel(kind: object) -> None:
    """Down to 1e-10, far below float32's resolution at 1, it is the square of the relative rank-1 residual."""
    rng = np.random.default_rng(2)
    x = (1 + 1e-5 * rng.standard_normal((2, 64, 16))).astype(np.float32)
    exact = x.astype(np.float64)
    residual = np.linalg.norm(exact - exact.mean(1, keepdims=True), axis=(1, 2)) / np.linalg.norm(exact, axis=(1, 2))
    assert (residual**2 < 2e-10).all()
    np.testing.assert_allclose(np.sqrt(np.asarray(token_diversity(kind(x)))), residual, rtol=2e-2)  # type: ignore


def test_half_precision_is_widened() -> None:
    x = torch.full((2048, 64), 200.0, dtype=torch.bfloat16)
    assert token_similarity(x).dtype == torch.float32
    assert float(token_similarity(x)) == pytest.approx(1)
    assert token_similarity(np.full((2048, 64), 200.0, np.float16)) == pytest.approx(1)


def test_zeros_are_nan() -> None:
    with np.errstate(invalid="ignore"):
        assert np.isnan(token_similarity(np.zeros((4, 2))))
    assert token_similarity(torch.zeros(4, 2)).isnan()
