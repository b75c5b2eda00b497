import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.similarity import token_similarity
from collapse.theory import (
    amount_of_attention,
    attention_expectations,
    attention_increment,
    folded_variance,
    harmonic_number,
    prefix_average,
    token_correlation,
)
from collapse.theory.attention import f1, f2

lengths = st.one_of(st.integers(2, 300), st.sampled_from([2048, 10**6]))
amounts = st.one_of(st.just(0.0), st.floats(1e-12, 1e12), st.just(1e308))
shares = st.floats(0, 1)
CASES = [(n, t, s) for n in (2, 3, 17, 96) for t in (0.0, 1 / n, 0.37, 0.9, 1.0) for s in (0.0, 1 / 9, 3.0, 1e9)]


def similarity_of(n, t):
    """A token similarity in [1/n, 1] from a share in [0, 1]."""
    return 1 / n + t * (1 - 1 / n)


def test_prefix_average():
    assert prefix_average(3).tolist() == [[1, 0, 0], [0.5, 0.5, 0], [1 / 3, 1 / 3, 1 / 3]]
    c = prefix_average(200)
    assert c.dtype == np.float64 and (np.triu(c, 1) == 0).all()
    np.testing.assert_allclose(c.sum(1), 1, rtol=1e-14)
    # The two norms that Theorem C.3 uses.
    np.testing.assert_allclose((c**2).sum(), harmonic_number(200), rtol=1e-13)
    np.testing.assert_allclose(200 * (c.mean(0) ** 2).sum(), 2 - harmonic_number(200) / 200, rtol=1e-13)


def test_harmonic_number():
    n = np.array([[1, 2, 31, 32], [33, 34, 2048, 10**6]])
    exact = [[math.fsum(1 / k for k in range(1, m + 1)) for m in row] for row in n]
    np.testing.assert_allclose(harmonic_number(n), exact, rtol=4e-16)
    assert harmonic_number(2) == 1.5


@given(lengths)
def test_token_correlation_is_exact_at_the_ends_of_its_range(n):
    assert token_correlation(1 / n, n) == 0
    assert token_correlation(1, n) == 1
    assert token_correlation(0, n) == pytest.approx(-1 / (n - 1), rel=1e-15)


@given(lengths, shares)
def test_token_correlation_agrees_with_its_definition(n, t):
    assert token_correlation(t, n) == pytest.approx((n * t - 1) / (n - 1), abs=1e-15)


@pytest.mark.parametrize(("n", "t", "s"), CASES)
def test_increment_agrees_with_explicit_matrices(n, t, s, equal_correlation):
    d = 8
    c, pi, gram = prefix_average(n), np.ones((n, n)) / n, equal_correlation(t, n, d)
    branch = d * (s / d) * c @ gram @ c.T  # E[C X W W^T X^T C^T], sigma_W^2 = s/d
    after = np.trace(pi @ (gram + branch)) / np.trace(gram + branch)
    assert attention_increment(s, t, n) == pytest.approx(after - t, abs=1e-14)
    # Subtracting a C_n scales the attention matrix by 1 - a, and its second moment by (1 - a)^2.
    branch *= (1 - 0.3) ** 2
    after = np.trace(pi @ (gram + branch)) / np.trace(gram + branch)
    assert attention_increment(s, t, n, deescalation=0.3) == pytest.approx(after - t, abs=1e-14)


@pytest.mark.parametrize(("n", "t", "s"), CASES)
def test_expectations_agree_with_explicit_matrices(n, t, s, equal_correlation):
    d, a = 12, 0.4
    c, pi, gram = (1 - a) * prefix_average(n), np.ones((n, n)) / n, equal_correlation(t, n, d)
    found = attention_expectations(t, n, d, s / d, deescalation=a)
    second_moment = gram + d * (s / d) * c @ gram @ c.T
    assert found.projected == pytest.approx(np.trace(pi @ second_moment @ pi), rel=1e-12, abs=1e-12)
    assert found.total == pytest.approx(np.trace(second_moment), rel=1e-12)


@pytest.mark.parametrize(("n", "t", "a"), [(6, 0.5, 0.0), (16, 1 / 16, 0.0), (16, 0.7, 0.25)])
def test_expectations_agree_with_monte_carlo(n, t, a, equal_correlation, rows_of):
    rng = np.random.default_rng(n)
    d, draws, variance = 20, 4000, 0.05
    x = rows_of(equal_correlation(t, n, d), d, rng)
    assert token_similarity(x) == pytest.approx(t, abs=1e-12)
    w = rng.normal(0, math.sqrt(variance), (draws, d, d))
    y = x + (1 - a) * prefix_average(n) @ x @ w
    for expected, sample in zip(
        attention_expectations(t, n, d, variance, deescalation=a),
        (n * (y.mean(1) ** 2).sum(-1), (y**2).sum((1, 2))),
        strict=True,
    ):
        assert abs(sample.mean() - expected) < 4 * sample.std(ddof=1) / math.sqrt(draws)


def test_erratum_of_the_corollarys_proof(equal_correlation):
    """With the printed d sigma_W^2 the branch is d times too small, and Corollary 3.3 does not follow."""
    n, t, d, a = 64, 0.3, 48, 0.5
    variance = folded_variance(d, 1 / (3 * d), 1 / (3 * d))
    s = amount_of_attention(d, variance)
    corollary = attention_increment(s, t, n, deescalation=a)

    def after(branch):
        rho, h = token_correlation(t, n), harmonic_number(n)
        projected = n * d * t + branch * (1 - a) ** 2 * (rho * n + (1 - rho) * (2 - h / n))
        return projected / (n * d + branch * (1 - a) ** 2 * (rho * n + (1 - rho) * h))

    exact = attention_expectations(t, n, d, variance, deescalation=a)
    assert after(d**2 * variance) - t == pytest.approx(corollary, rel=1e-12)
    assert exact.projected / exact.total - t == pytest.approx(corollary, rel=1e-12)
    printed = after(d * variance) - t
    assert 0 < printed < corollary / (0.9 * d)

    c, gram = (1 - a) * prefix_average(n), equal_correlation(t, n, d)
    assert exact.total - n * d == pytest.approx(d * variance * np.trace(c @ gram @ c.T), rel=1e-12)


@given(lengths, shares, amounts, amounts)
def test_increment_grows_with_the_amount_of_attention(n, share, one, other):
    t = similarity_of(n, share)
    less, more = attention_increment(sorted([one, other]), t, n)
    assert 0 <= less <= more * (1 + 1e-14)
    assert t + more <= 1
    if one > 0 and share < 0.999:
        assert attention_increment(one, t, n) > 0


@given(lengths, amounts, shares, shares)
def test_increment_falls_with_deescalation(n, s, share, a):
    t = similarity_of(n, share)
    assert attention_increment(s, t, n, a) <= attention_increment(s, t, n) * (1 + 1e-14)
    assert attention_increment(s, t, n, 1.0) == 0
    assert attention_increment(s, t, n, a) == attention_increment((1 - a) ** 2 * s, t, n)


@given(lengths, amounts)
def test_increment_is_zero_at_collapse_and_without_attention(n, s):
    assert attention_increment(s, 1, n) == 0
    assert attention_increment(0, 1 / n, n) == 0


@given(lengths)
def test_edges_of_f1_and_f2(n):
    h = harmonic_number(n)
    assert f2(1 / n, n) == pytest.approx(h / n, rel=1e-13)
    assert f2(1, n) == pytest.approx(1, rel=1e-15)
    assert f1(1 / n, n) == pytest.approx(2 * (n - h) / n**2, rel=1e-13)
    assert attention_increment(1e308, 0.5, n) == pytest.approx(f1(0.5, n) / f2(0.5, n), rel=1e-14)


@given(lengths, shares)
def test_f1_is_largest_where_the_paper_says(n, share):
    top = (n - 1) / (2 * n)
    assert f1(share, n) <= f1(top, n)
    if abs(share - top) > 1e-3:
        assert f1(share, n) < f1(top, n)


def test_amount_of_attention():
    assert folded_variance(512, 1 / 1536, 1 / 1536) == pytest.approx(1 / (9 * 512))
    assert amount_of_attention(512, 1 / (9 * 512)) == pytest.approx(1 / 9)
    n, d, variance, x = 5, 4, 0.2, np.random.default_rng(0).normal(size=(5, 4))
    assert amount_of_attention(d, variance, (x**2).mean()) == pytest.approx(n * d**2 * variance / (x**2).sum())


def test_vectorized():
    s, t, n = np.array([0.1, 2.0])[:, None, None], np.linspace(0, 1, 5)[:, None], np.array([2, 7, 10**6])
    found = attention_increment(s, t, n)
    assert found.shape == (2, 5, 3) and found.dtype == np.float64
    assert found[1, 3, 1] == attention_increment(2.0, 0.75, 7)
    assert np.isscalar(attention_increment(0.1, 0.5, 8)) and np.isscalar(token_correlation(0.5, 8))


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: prefix_average(0), r"n must be finite and at least 1, got 0\.0"),
        (lambda: harmonic_number([3, 2.5]), r"n must be an integer, got 2\.5"),
        (lambda: token_correlation([0.5, 1.25], 4), r"t must be finite and in \[0, 1\], got 1\.25"),
        (lambda: token_correlation(0.5, 1), r"n must be finite and at least 2, got 1\.0"),
        (lambda: attention_increment(-0.5, 0.5, 4), r"s must be finite and at least 0, got -0\.5"),
        (lambda: attention_increment(np.inf, 0.5, 4), r"s must .* got inf"),
        (lambda: attention_increment(1, np.nan, 4), r"t must .* got nan"),
        (lambda: attention_increment(1, 0.5, 4, deescalation=1.5), r"deescalation must .* got 1\.5"),
        (lambda: attention_expectations(0.5, 4, 8, -1.0), r"weight_variance must .* got -1\.0"),
        (lambda: amount_of_attention(8, 0.1, 0.0), r"mean_square must be positive, got 0\.0"),
        (lambda: folded_variance(0, 0.1, 0.1), r"width must .* got 0\.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
