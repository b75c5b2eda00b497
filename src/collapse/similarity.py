"""Token similarity and token diversity of sequences, for numpy arrays and torch tensors alike."""

from typing import Any, TypeVar, cast

Array = TypeVar("Array")


def token_similarity(x: Array) -> Array:
    """Share of a sequence's squared norm that lies in its mean row (Definition 2.1).

    ||mean-row matrix||_F^2 / ||X||_F^2 = n ||mean row||^2 / ||X||_F^2: about 1/n for independent rows, 1 where all rows
    are equal. Near 1 its distance from 1 is rounding error; `token_diversity` gives that distance accurately.

    Args:
        x: Sequences X, (..., n, d): a numpy array or a torch tensor of floats.

    Returns:
        (...), in [0, 1], float32 or wider, of the kind of `x`; NaN for a sequence of zeros.
    """
    rows = _wide(x)
    mean = rows.mean(-2)
    return cast(Array, _share(rows.shape[-2] * (mean * mean).sum(-1), rows))


def token_diversity(x: Array) -> Array:
    """1 - token similarity, from the centred rows: accurate however close the rows are to each other (Appendix B).

    Its square root is the relative rank-1 residual ||X - 1 (mean row)||_F / ||X||_F of Dong et al. (2021).

    Args:
        x: Sequences X, (..., n, d): a numpy array or a torch tensor of floats.

    Returns:
        (...), in [0, 1], float32 or wider, of the kind of `x`; NaN for a sequence of zeros.
    """
    rows = _wide(x)
    centred = rows - rows.mean(-2)[..., None, :]
    return cast(Array, _share((centred * centred).sum((-2, -1)), rows))


def _wide(x: Any) -> Any:
    """`x` in float32 at least: half precision cannot hold the sums."""
    if x.dtype.itemsize >= 4:
        return x
    return x.float() if hasattr(x, "float") else x.astype("float32")


def _share(part: Any, rows: Any) -> Any:
    return (part / (rows * rows).sum((-2, -1))).clip(0, 1)
