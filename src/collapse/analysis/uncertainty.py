"""Means, ratios and shares over seeds, each with its standard error."""

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import t as student_t

from collapse.probes.jackknife import jackknife_error

LEVEL = float(2 * ndtr(-2))
"""Two-sided level of an uncertainty: 4.55 %, two standard errors of a large sample."""
SMALLEST_SAMPLE = 3
"""Fewer seeds, or blocks of seeds, give no standard error."""
GAPS = ("gap_prefix", "gap_ratio", "gap_equal")
"""Variables that hold what each approximation contributes to the difference of measured and predicted increments."""


class NotMeasured(Exception):  # noqa: N818 - not a failure: the claim is undecided
    """The results do not contain what was asked for."""


class Measured(NamedTuple):
    """Values with their standard errors and degrees of freedom; the three broadcast.

    A value that was not sampled has the error 0; an unknown error is NaN.
    """

    values: ArrayLike
    errors: ArrayLike = 0.0
    degrees: ArrayLike = np.inf

    def broadcast(self) -> tuple[NDArray[np.float64], ...]:
        """Values, errors and degrees as arrays of one shape."""
        return np.broadcast_arrays(*map(_numbers, self))


def half_width(measured: Measured, compared: int = 1) -> NDArray[np.float64]:
    """Half the width of each value's confidence interval, by Student's t at `LEVEL` / `compared`.

    Args:
        measured: Values of any shape.
        compared: How many values are compared at once (Bonferroni).
    """
    _, errors, degrees = measured.broadcast()
    return np.asarray(errors * student_t.isf(LEVEL / 2 / max(compared, 1), degrees))


def select(data: xr.Dataset, **at: str | float) -> xr.Dataset:
    """The part of a Dataset at exactly these coordinates.

    Raises:
        NotMeasured: where the Dataset does not have a coordinate.
    """
    for name, value in at.items():
        if value not in data[name].values:
            raise NotMeasured(f"{name} {value}")
    return data.sel(at)


def over_seeds(values: xr.DataArray) -> Measured:
    """Means over the dim `seed` and their standard errors.

    A mean is NaN where a seed was not measured; an error is NaN with fewer than `SMALLEST_SAMPLE` seeds.
    """
    seeds, mean = values.sizes["seed"], values.mean("seed", skipna=False).values
    if seeds < SMALLEST_SAMPLE:
        return Measured(mean, np.nan)
    return Measured(mean, values.std("seed", ddof=1, skipna=False).values / seeds**0.5, seeds - 1)


def by_jackknife(data: xr.Dataset, statistic: Callable[[xr.Dataset], ArrayLike]) -> Measured:
    """A statistic of all seeds, and its standard error from leaving out one seed at a time.

    Args:
        data: A Dataset with the dim `seed`.
        statistic: Takes a Dataset with some of the seeds.
    """
    seeds, whole = data.sizes["seed"], statistic(data)
    if seeds < SMALLEST_SAMPLE:
        return Measured(whole, np.nan)
    without = [statistic(data.isel(seed=[i for i in range(seeds) if i != left])) for left in range(seeds)]
    return over_blocks(whole, [_numbers(value) for value in without], np.ones(seeds))


def over_blocks(whole: ArrayLike, without: ArrayLike, sizes: ArrayLike) -> Measured:
    """An estimate, and its standard error from the estimates that leave out one block of seeds.

    Args:
        whole: The estimate from all seeds, (...).
        without: The estimates without block b, (B, ...).
        sizes: Number of seeds in each block, (B,). The error is NaN with fewer than `SMALLEST_SAMPLE` blocks.
    """
    blocks = len(_numbers(sizes))
    if blocks < SMALLEST_SAMPLE:
        return Measured(whole, np.nan)
    return Measured(whole, jackknife_error(whole, without, sizes), blocks - 1)


def ratio_of_means(part: xr.DataArray, whole: xr.DataArray) -> Measured:
    """The mean of `part` over that of `whole`, both over the dim `seed`."""
    both = xr.Dataset({"part": part, "whole": whole}, {"seed": whole["seed"]})
    return by_jackknife(both, lambda data: data["part"].mean("seed") / data["whole"].mean("seed"))


def several(found: Iterable[Measured]) -> Measured:
    """All values of several measurements, in one dimension."""
    parts = [measured.broadcast() for measured in found]
    return Measured(*(np.concatenate([np.ravel(part[i]) for part in parts]) for i in range(3)))


def share_of_gap(data: xr.Dataset, gap: str) -> Measured:
    """Share of one approximation in the gap between measured and predicted increments: |gap| over the sum of all three.

    The gaps are averaged over seeds (networks), and their absolute values summed over layers. Sampling noise increases
    an absolute value, whatever its sign. The standard error therefore combines the jackknife over networks with the
    share that noise alone would give.

    Args:
        data: The approximations at one placement and variance: the variables `GAPS`, dims (seed, layer), and for those
            that were sampled their standard errors, `<gap>_se`.
        gap: One of `GAPS`.
    """

    def share(part: xr.Dataset) -> xr.DataArray:
        sums = _absolute_sums(part)
        return sums.sel(gap=gap) / sums.sum("gap", skipna=False)

    found = by_jackknife(data, share)
    noises = [_noise(data[f"{name}_se"]) if f"{name}_se" in data else 0.0 for name in GAPS]
    value = float(np.asarray(found.values))
    noise = (noises[GAPS.index(gap)] + value * sum(noises)) / _absolute_sums(data).sum(skipna=False).values
    return Measured(value, float(np.hypot(found.errors, noise)), found.degrees)


def _absolute_sums(data: xr.Dataset) -> xr.DataArray:
    """Sums over layers of the absolute gaps, averaged over networks: dim gap."""
    gaps = data[list(GAPS)].mean("seed", skipna=False).to_dataarray("gap")
    return abs(gaps).sum("layer", skipna=False)


def _noise(errors: xr.DataArray) -> float:
    """Sum over layers of the mean absolute value of noise with these standard errors, averaged over networks."""
    error: xr.DataArray = (errors**2).sum("seed", skipna=False) ** 0.5 / errors.sizes["seed"]
    return math.sqrt(2 / math.pi) * float(error.sum("layer", skipna=False))


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)
