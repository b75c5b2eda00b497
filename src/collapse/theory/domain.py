"""Arguments of the closed forms as float64 arrays, checked against the domain of the statement."""

import numpy as np
from numpy.typing import ArrayLike, NDArray

Values = NDArray[np.float64]


def within(name: str, value: ArrayLike, low: ArrayLike, high: ArrayLike = np.inf) -> Values:
    """`value` as float64, with every entry finite and in [low, high].

    Raises:
        ValueError: if an entry is not; names the first one.
    """
    values = np.asarray(value, np.float64)
    entries, lows, highs = np.broadcast_arrays(values, low, high)
    outside = ~((entries >= lows) & (entries <= highs) & np.isfinite(entries))
    if outside.any():
        bounds = f"at least {lows[outside][0]:g}"
        if np.isfinite(highs[outside][0]):
            bounds = f"in [{lows[outside][0]:g}, {highs[outside][0]:g}]"
        raise ValueError(f"{name} must be finite and {bounds}, got {float(entries[outside][0])!r}")
    return values


def positive(name: str, value: ArrayLike) -> Values:
    """`value` as float64, with every entry finite and positive.

    Raises:
        ValueError: if an entry is not; names the first one.
    """
    values = within(name, value, 0)
    if (values == 0).any():
        raise ValueError(f"{name} must be positive, got 0.0")
    return values


def whole(name: str, value: ArrayLike, low: int) -> Values:
    """`value` as float64, with every entry an integer >= `low`.

    Raises:
        ValueError: if an entry is not; names the first one.
    """
    values = within(name, value, low)
    fractional = values != np.floor(values)
    if fractional.any():
        raise ValueError(f"{name} must be an integer, got {float(values[fractional][0])!r}")
    return values
