"""Lower triangles of square matrices, which determine causal and symmetric matrices.

A packed triangle holds its n (n + 1)/2 entries row by row. Every function keeps the type of its matrix.
"""

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from collapse.pipeline.blocks import BLOCK_ROWS

Array = NDArray[Any]


def row_blocks(n: int) -> Iterator[slice]:
    """Blocks of rows, first to last; the lower triangle of a block ends before column `rows.stop`."""
    for first in range(0, n, BLOCK_ROWS):
        yield slice(first, min(first + BLOCK_ROWS, n))


def pack(matrix: Array) -> Array:
    """The packed lower triangle of an (n, n) matrix."""
    packed: Array = matrix[np.tri(len(matrix), dtype=bool)]
    return packed


def unpack(packed: Array, n: int) -> Array:
    """The lower triangular matrix, (n, n)."""
    matrix = np.zeros((n, n), packed.dtype)
    matrix[np.tri(n, dtype=bool)] = packed
    return matrix


def unpack_symmetric(packed: Array, n: int) -> Array:
    """The symmetric matrix, (n, n)."""
    lower = unpack(packed, n)
    return lower + np.tril(lower, -1).T


def symmetric_sum(packed: Array, n: int) -> float:
    """Sum of all entries of the symmetric matrix, in double precision."""
    diagonal = packed[np.cumsum(np.arange(1, n + 1)) - 1]
    return float(2 * packed.sum(dtype=np.float64) - diagonal.sum(dtype=np.float64))


def congruence(p: Array, gram: Array) -> Array:
    """Packed P G P^T for lower triangular P and symmetric G, (n, n) each; a third of the operations of two products."""
    n = len(p)
    product = np.empty((n, n), p.dtype)
    for rows in row_blocks(n):
        past = slice(rows.stop)
        product[rows, past] = p[rows, past] @ gram[past, past] @ p[past, past].T
    return pack(product)
