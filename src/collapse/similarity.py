"""Token similarity and token diversity of sequences, for numpy arrays and torch tensors.

Runs and probes hold sums instead of sequences; `recording/statistics.py` has the same formula of these sums.
"""

from typing import Any, TypeVar, cast

Array = TypeVar("Array")


def token_similarity(x: Array) -> Array:
    """Share of the squared norm of a sequence that lies in its mean row (Definition 2.1).

    ||mean-row matrix||_F^2 / ||X||_F^2 = n ||mean row||^2 / ||X||_F^2: about 1/n for independent rows, 1 if all rows
    are equal. Near 1, rounding errors dominate its distance from 1; `token_diversity` gives this distance accurately.

    Args:
        x: Sequences X, (..., n, d): a numpy array or a torch tensor of floats.

    Returns:
        (...), in [0, 1], float32 or wider, array or tensor like `x`; NaN for a sequence of zeros.
    """
    rows = _wide(x)
    mean = rows.mean(-2)
    return cast(Array, _share(rows.shape[-2] * (mean * mean).sum(-1), rows))


def token_diversity(x: Array) -> Array:
    """1 - token similarity, from the centred rows: accurate even for nearly equal rows (Appendix B).

    Its square root is the relative rank-1 residual ||X - 1 (mean row)||_F / ||X||_F of Dong et al. (2021).

    Args:
        x: Sequences X, (..., n, d): a numpy array or a torch tensor of floats.

    Returns:
        (...), in [0, 1], float32 or wider, array or tensor like `x`; NaN for a sequence of zeros.
    """
    rows = _wide(x)
    centred = rows - rows.mean(-2)[..., None, :]
    return cast(Array, _share((centred * centred).sum((-2, -1)), rows))


def _wide(x: Any) -> Any:
    """`x` in at least float32, because half precision cannot represent the sums."""
    if x.dtype.itemsize >= 4:
        return x
    return x.float() if hasattr(x, "float") else x.astype("float32")


def _share(part: Any, rows: Any) -> Any:
    return (part / (rows * rows).sum((-2, -1))).clip(0, 1)
