import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.theory import (
    attention_expectations,
    attention_increment,
    depth_recursion,
    ffn_increment,
    swiglu_moment,
    token_correlation,
)

placements = st.sampled_from(["post", "pre"])


@given(placements, st.integers(2, 4000), st.integers(1, 12), st.floats(0.1, 30), st.floats(0, 1), st.floats(0, 1))
def test_recursion_stays_between_independent_and_equal_tokens(placement, n, layers, scale, share, a):
    found = depth_recursion(placement, n, layers, scale, 1 / n + share * (1 - 1 / n), a)
    assert all(part.shape == (layers, 2) for part in found)
    assert (found.tsim_x >= 1 / n).all() and (found.tsim_y <= 1).all()
    assert (found.tsim_y[:, 0] >= found.tsim_x[:, 0]).all(), "attention raises token similarity"
    assert (found.tsim_y[:, 1] <= found.tsim_x[:, 1]).all(), "SwiGLU lowers token similarity"
    assert (found.tsim_x.ravel()[1:] == found.tsim_y.ravel()[:-1]).all()


@pytest.mark.parametrize("scale", [1.0, 2.0, 4.0])
def test_post_norm_adds_the_increments(scale):
    n, t = 2048, 0.01
    found = depth_recursion("post", n, 3, scale, t)
    for layer in range(3):
        t += attention_increment(scale**2 / 9, t, n)
        assert found.tsim_y[layer, 0] == pytest.approx(t, rel=1e-14)
        t += ffn_increment(scale**2 / 9, t, n, scale / 3)
        assert found.tsim_y[layer, 1] == pytest.approx(t, rel=1e-14)
    assert (found.mean_square == 1).all()


def test_pre_norm_follows_the_explicit_gram_matrices():
    """Propagate both second moments of the residual by Theorem C.3 and the proof of Theorem 3.4."""
    n, d, scale, t, a = 50, 16, 2.0, 0.1, 0.25
    found = depth_recursion("pre", n, 4, scale, t, deescalation=a)
    projected, total = n * d * t, n * d * 1.0
    m1 = swiglu_moment(1, scale / 3)
    for layer in range(4):
        assert found.mean_square[layer, 0] == pytest.approx(total / (n * d), rel=1e-12)
        branch = attention_expectations(projected / total, n, d, scale**2 / (9 * d), deescalation=a)
        projected += branch.projected - n * d * (projected / total)
        total += branch.total - n * d
        assert found.tsim_y[layer, 0] == pytest.approx(projected / total, rel=1e-12)
        assert found.mean_square[layer, 1] == pytest.approx(total / (n * d), rel=1e-12)
        rho = token_correlation(projected / total, n)
        projected += d * scale**2 / 9 * (m1 + (n - 1) * rho * swiglu_moment(rho, scale / 3))
        total += n * d * scale**2 / 9 * m1
        assert found.tsim_y[layer, 1] == pytest.approx(projected / total, rel=1e-12)


def test_at_the_papers_scale_post_norm_outgrows_pre_norm():
    t0 = 2 / 2048
    post, pre = (depth_recursion(p, 2048, 48, 1.0, t0) for p in ("post", "pre"))
    assert (post.tsim_y[1:] > pre.tsim_y[1:]).all()
    assert post.tsim_y[-1, -1] > 2 * pre.tsim_y[-1, -1]
    assert (np.diff(pre.mean_square[:, 0]) > 0).all()
    without = depth_recursion("post", 2048, 48, 1.0, t0, deescalation=1.0)
    assert without.tsim_y[-1, -1] <= t0


def test_collapse_is_a_fixed_point():
    for placement in ("post", "pre"):
        assert (depth_recursion(placement, 33, 5, 4.0, 1.0).tsim_y == 1).all()


def test_arguments_broadcast():
    scale, t0 = np.array([1.0, 2.0, 4.0])[:, None], np.array([0.01, 0.5])
    found = depth_recursion("pre", 128, 6, scale, t0)
    assert found.tsim_y.shape == (3, 2, 6, 2)
    np.testing.assert_allclose(found.tsim_y[1, 1], depth_recursion("pre", 128, 6, 2.0, 0.5).tsim_y, rtol=1e-14)
    assert depth_recursion("post", np.array([2, 10**6]), 2, 1.0, 1.0).tsim_y.shape == (2, 2, 2)


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: depth_recursion("middle", 8, 2, 1.0, 0.5), r"placement must be 'post' or 'pre', got 'middle'"),
        (lambda: depth_recursion("post", 8, 0, 1.0, 0.5), r"layers must .* got 0\.0"),
        (lambda: depth_recursion("post", 8, 2, 0.0, 0.5), r"variance_scale must be positive, got 0\.0"),
        (lambda: depth_recursion("post", 8, 2, -2.0, 0.5), r"variance_scale must .* got -2\.0"),
        (lambda: depth_recursion("post", 1, 2, 1.0, 0.5), r"n must .* got 1\.0"),
        (lambda: depth_recursion("post", 8, 2, 1.0, 1.5), r"t0 must .* got 1\.5"),
        (lambda: depth_recursion("post", 8, 2, 1.0, 0.5, 2.0), r"deescalation must .* got 2\.0"),
    ],
)
def test_bad_input(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_theory_needs_only_numpy_and_scipy():
    script = (
        "import sys, collapse.theory as theory\n"
        "assert 'numpy' not in sys.modules\n"
        "[getattr(theory, name) for name in theory.__all__]\n"
        "theory.depth_recursion('post', 8, 2, 1.0, 0.5)\n"
        "print(*{'torch', 'pandas', 'xarray', 'mpmath', 'datasets'} & set(sys.modules))"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []
