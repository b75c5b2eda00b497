import math
import time

import mpmath
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.theory import ffn_increment, ffn_row_norm, swiglu_coefficient, swiglu_moment

lengths = st.one_of(st.integers(2, 300), st.sampled_from([2048, 10**6]))
variances = st.floats(1e-3, 20)


def moment_by_mpmath(rho, variance):
    """The double integral of the definition over the sum and the difference of u and v, which are independent."""
    with mpmath.workdps(16):
        plus, minus = (mpmath.sqrt(mpmath.mpf(variance) * (1 + sign * rho) / 2) for sign in (1, -1))

        def silu(x):
            return x / (1 + mpmath.exp(-x))

        def integrand(p, q):
            return silu(plus * p + minus * q) * silu(plus * p - minus * q) * mpmath.exp(-(p**2 + q**2) / 2)

        half = mpmath.quad(integrand, [-9, 0, 9], [0, 9], method="gauss-legendre", maxdegree=5)  # even in q
        return float(half / mpmath.pi)


@pytest.mark.parametrize("case", range(6))
def test_moment_agrees_with_mpmath(case):
    rng = np.random.default_rng(case)
    rho, variance = rng.uniform(-1, 1), 10 ** rng.uniform(-2, 1)
    assert swiglu_moment(rho, variance) == pytest.approx(moment_by_mpmath(rho, variance), abs=1e-11)


@pytest.mark.parametrize("variance", [0.01, 1 / 3, 4 / 3, 25.0, 100.0, 1000.0])
def test_moment_at_the_edges_agrees_with_mpmath(variance):
    """For rho = 0, 1 and -1, mpmath computes single integrals with 30 digits at any variance."""
    with mpmath.workdps(30):
        sigma = mpmath.sqrt(variance)
        cuts = sorted({0, *(s * c / (8 * sigma) for s in (-1, 1) for c in (1, 4, 16, 64)), -14, 14})
        cuts = [c for c in cuts if abs(c) <= 14]

        def mean(f):
            return mpmath.quad(lambda z: f(sigma * z) * mpmath.npdf(z), cuts)

        def silu(x):
            return x / (1 + mpmath.exp(-x))

        expected = [mean(silu) ** 2, mean(lambda x: silu(x) ** 2), mean(lambda x: silu(x) * silu(-x))]
    found = swiglu_moment([0, 1, -1], variance)
    np.testing.assert_allclose(found, np.array(expected, float), rtol=1e-14, atol=1e-11)


def test_the_papers_values():
    m0, m1 = swiglu_moment([0, 1], 1 / 3)
    assert m0 == pytest.approx(0.005981, abs=5e-7)
    assert m1 == pytest.approx(0.099772, abs=5e-7)
    xi = swiglu_coefficient(512, 1536, 1 / (3 * 512), 1 / (3 * 1536))
    assert xi == pytest.approx(1 / 9)
    assert xi * m1 == pytest.approx(0.01109, abs=5e-6)


@pytest.mark.parametrize("hi", [1 / 3, 4 / 3, 10.0])
def test_a_thousand_moments_are_fast(hi):
    rng = np.random.default_rng(0)
    rho, variance = rng.uniform(-1, 1, 1000), rng.uniform(0, hi, 1000)

    def seconds():
        start = time.perf_counter()
        swiglu_moment(rho, variance)
        return time.perf_counter() - start

    assert min(seconds() for _ in range(5)) < 0.1


@given(variances, st.lists(st.floats(0, 1), min_size=2, max_size=20))
def test_moment_increases_with_correlation(variance, rhos):
    found = swiglu_moment(sorted(rhos), variance)
    assert (np.diff(found) >= 0).all()
    assert found[0] >= swiglu_moment(0, variance) > 0
    assert found[-1] <= swiglu_moment(1, variance)


@given(st.floats(-1, 1), variances)
def test_moments_odd_part_is_the_linear_one(rho, variance):
    """SiLU(x) - SiLU(-x) = x, so m(rho) - m(-rho) = variance rho/2."""
    difference = swiglu_moment(rho, variance) - swiglu_moment(-rho, variance)
    assert difference == pytest.approx(variance * rho / 2, abs=1e-13)


def test_moment_broadcasts():
    rho, variance = np.linspace(-1, 1, 7), np.array([0.0, 1e-3, 1 / 3, 50])[:, None]
    found = swiglu_moment(rho, variance)
    assert found.shape == (4, 7) and found.dtype == np.float64
    assert (found[0] == 0).all()
    np.testing.assert_allclose(found[2], [swiglu_moment(r, 1 / 3) for r in rho], atol=1e-13)
    assert swiglu_moment([], []).shape == (0,)
    assert np.isscalar(swiglu_moment(0.5, 1 / 3))


@pytest.mark.parametrize("n", [2, 5, 40])
def test_increment_agrees_with_explicit_matrices(n, equal_correlation):
    d, xi, variance = 8, 0.7, 1 / 3
    pi = np.ones((n, n)) / n
    for t in (0.0, 1 / n, 0.4, 0.95, 1.0):
        gram = equal_correlation(t, n, d)
        # E[R_s R_s^T]_ij = d_ff E[SiLU SiLU] E[B B], and E[B B] is sigma_W3^2 times the Gram matrix.
        moments = swiglu_moment(np.clip(gram / d, -1, 1), variance)
        output = gram + xi * moments * gram
        after = np.trace(pi @ output) / np.trace(output)
        assert ffn_increment(xi, t, n, variance) == pytest.approx(after - t, abs=1e-14)


def test_expectations_agree_with_monte_carlo(equal_correlation, rows_of):
    """A SwiGLU sublayer with all three matrices drawn agrees with Theorem 3.4 and Lemma C.4 within standard errors."""
    rng = np.random.default_rng(3)
    n, d, d_ff, t, draws = 6, 8, 12, 0.45, 20_000
    gate, up, down = 0.1, 0.3, 0.25
    x = rows_of(equal_correlation(t, n, d), d, rng)
    w1, w3 = rng.normal(0, math.sqrt(gate), (draws, d, d_ff)), rng.normal(0, math.sqrt(up), (draws, d, d_ff))
    a = x @ w1
    y = x + (a / (1 + np.exp(-a)) * (x @ w3)) @ rng.normal(0, math.sqrt(down), (draws, d_ff, d))

    def excess(sample, expected):
        return abs(sample.mean() - expected) / (sample.std(ddof=1) / math.sqrt(draws))

    row = ffn_row_norm(d, d_ff, up, down, d * gate)
    assert all(excess((y[:, i] ** 2).sum(-1), row) < 4 for i in range(n))
    # The ratio of the expectations is t + increment if this combination of both has mean 0.
    after = t + ffn_increment(swiglu_coefficient(d, d_ff, up, down), t, n, d * gate)
    assert excess(n * (y.mean(1) ** 2).sum(-1) - after * (y**2).sum((1, 2)), 0.0) < 4
    assert excess(n * (y.mean(1) ** 2).sum(-1) - t * (y**2).sum((1, 2)), 0.0) > 4, "the test detects the increment"


@given(lengths, st.floats(0, 1), st.floats(0, 1e12), variances)
def test_increment_damps_within_the_papers_bound(n, share, xi, variance):
    t = 1 / n + share * (1 - 1 / n)
    found = ffn_increment(xi, t, n, variance)
    assert -xi * swiglu_moment(1, variance) <= found <= 0
    assert 1 / n <= t + found <= 1


@given(lengths, st.floats(0, 1e300), variances)
def test_increment_is_zero_at_both_ends(n, xi, variance):
    assert ffn_increment(xi, 1, n, variance) == 0
    assert ffn_increment(xi, 1 / n, n, variance) == 0
    assert ffn_increment(0, 0.5, n, variance) == 0


@given(lengths, st.floats(0, 1), variances, st.floats(0, 10), st.floats(0, 10))
def test_damping_grows_with_xi(n, share, variance, one, other):
    less, more = ffn_increment(sorted([one, other]), 1 / n + share * (1 - 1 / n), n, variance)
    assert more <= less * (1 - 1e-14) + 1e-300


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: swiglu_moment([0.5, -1.5], 1 / 3), r"rho must be finite and in \[-1, 1\], got -1\.5"),
        (lambda: swiglu_moment(0.5, [1.0, -0.25]), r"preact_variance must be .*in \[0, 1000\], got -0\.25"),
        (lambda: swiglu_moment(0.5, 1e4), r"preact_variance must .* got 10000\.0"),
        (lambda: ffn_increment(-1, 0.5, 4, 1 / 3), r"xi must be finite and at least 0, got -1\.0"),
        (lambda: ffn_increment(1, 1.5, 4, 1 / 3), r"t must .* got 1\.5"),
        (lambda: ffn_increment(1, 0.5, 1, 1 / 3), r"n must .* got 1\.0"),
        (lambda: swiglu_coefficient(8, 16.5, 1, 1), r"ffn_width must be an integer, got 16\.5"),
        (lambda: ffn_row_norm(8, 16, -2, 1, 1), r"up_variance must .* got -2\.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()
