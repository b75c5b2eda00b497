import numpy as np
import pytest

from collapse.probes import triangle
from collapse.probes.triangle import congruence, pack, row_blocks, symmetric_sum, unpack, unpack_symmetric


@pytest.mark.parametrize("n", [1, 2, 9])
def test_packed_triangles(n):
    rng = np.random.default_rng(n)
    lower, square = np.tril(rng.normal(size=(n, n))), rng.normal(size=(n, n))
    symmetric = square + square.T
    assert pack(lower).tolist() == [lower[i, j] for i in range(n) for j in range(i + 1)]
    np.testing.assert_array_equal(unpack(pack(lower), n), lower)
    np.testing.assert_array_equal(unpack_symmetric(pack(symmetric), n), symmetric)
    assert symmetric_sum(pack(symmetric), n) == pytest.approx(symmetric.sum())


@pytest.mark.parametrize("rows", [1, 4, 9, 20])
def test_congruence_in_blocks(rows, monkeypatch):
    monkeypatch.setattr(triangle, "BLOCK_ROWS", rows)
    rng = np.random.default_rng(rows)
    p, square = np.tril(rng.normal(size=(9, 9))), rng.normal(size=(9, 9))
    gram = square @ square.T
    np.testing.assert_allclose(congruence(p, gram), pack(p @ gram @ p.T))
    assert [i for block in row_blocks(9) for i in range(9)[block]] == list(range(9))
