import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.similarity import token_similarity
from collapse.theory import attention_expectations, attention_row_norm, prefix_average, rms_similarity_bounds


@pytest.mark.parametrize("n", [2, 7, 64])
@pytest.mark.parametrize("t", [0.0, 0.2, 0.8, 1.0])
def test_attention_row_norms_agree_with_explicit_matrices(n, t, equal_correlation):
    d, variance = 8, 0.3
    c, gram = prefix_average(n), equal_correlation(t, n, d)
    exact = np.diag(gram + d * variance * c @ gram @ c.T)
    found = attention_row_norm(np.arange(1, n + 1), t, n, d, variance)
    np.testing.assert_allclose(found, exact, rtol=1e-13)
    assert found.sum() == pytest.approx(attention_expectations(t, n, d, variance).total, rel=1e-13)


@given(
    st.integers(0, 2**32 - 1),
    st.integers(1, 12),
    st.integers(1, 6),
    st.floats(0, 0.999),
    st.floats(0, 5),
)
def test_normalized_similarity_lies_within_its_bounds(seed, n, d, spread, shift):
    rng = np.random.default_rng(seed)
    y = rng.normal(size=(n, d)) + shift
    factors = 1 + spread * rng.uniform(-1, 1, n)
    eta = np.abs(factors - factors.mean()).max() / factors.mean()
    if eta < 1:
        bounds = rms_similarity_bounds(token_similarity(y), eta)
        assert bounds.lower - 1e-12 <= token_similarity(factors[:, None] * y) <= bounds.upper + 1e-12


def test_bounds_are_tight_for_equal_factors():
    t = np.array([0.0, 0.3, 1.0])
    lower, upper = rms_similarity_bounds(t, 0)
    np.testing.assert_allclose([lower, upper], [t, t], rtol=1e-15)
    lower, upper = rms_similarity_bounds(0.25, [0.1, 0.5])
    np.testing.assert_allclose(lower, [(0.4 / 1.1) ** 2, 0])
    np.testing.assert_allclose(upper, [(0.6 / 0.9) ** 2, 4])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: attention_row_norm(5, 0.5, 4, 8, 0.1), r"position must be finite and in \[1, 4\], got 5\.0"),
        (lambda: attention_row_norm(1.5, 0.5, 4, 8, 0.1), r"position must be an integer, got 1\.5"),
        (lambda: rms_similarity_bounds(0.5, 1.0), r"eta must .* got 1\.0"),
        (lambda: rms_similarity_bounds(-0.5, 0.1), r"t must .* got -0\.5"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
