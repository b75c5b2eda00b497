from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray

Matrix = NDArray[np.float64]


@pytest.fixture
def equal_correlation() -> Callable[[float, int, int], Matrix]:
    """R_eq(t) of Assumption 3.1, from its two constraints: diagonal d, and Pi's share of the trace t."""

    def gram(t: float, n: int, d: int) -> Matrix:
        # a I + b 11^T has diagonal a + b = d and ones^T R ones/n = a + n b = t n d.
        b = (t * n * d - d) / (n - 1)
        return (d - b) * np.eye(n) + b * np.ones((n, n))

    return gram


@pytest.fixture
def rows_of() -> Callable[[Matrix, int, np.random.Generator], Matrix]:
    """X (n, d) with a given Gram matrix, in a random basis; needs d >= n."""

    def rows(gram: Matrix, d: int, rng: np.random.Generator) -> Matrix:
        values, vectors = np.linalg.eigh(gram)
        basis = np.linalg.qr(rng.normal(size=(d, len(gram))))[0]
        return vectors @ np.diag(np.sqrt(np.maximum(values, 0))) @ basis.T

    return rows
