"""What a claim is, and how a number with a standard error becomes a verdict."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr
from scipy.stats import t as student_t

from collapse.probes.jackknife import jackknife_error

Verdict = Literal["holds", "fails", "undecided"]
LEVEL = float(2 * ndtr(-2))
"""Two-sided level at which a mean is clear of a threshold: 4.55 %, two standard errors of a large sample."""
SMALLEST_SAMPLE = 3
"""Seeds, or blocks of seeds, below which no standard error is taken."""
ENOUGH_DRAWS = 1000
"""Draws below which a Monte Carlo mean is compared with nothing in units of its standard error."""


class NotMeasured(Exception):  # noqa: N818 - no failure: the claim is undecided
    """What a claim asks about is not in the results."""


class Measured(NamedTuple):
    """One or more values that the claim speaks of, their standard errors and degrees of freedom; they broadcast.

    An error of 0 is of what was not sampled; an unknown one is NaN.
    """

    values: ArrayLike
    errors: ArrayLike = 0.0
    degrees: ArrayLike = np.inf


def half_width(measured: Measured, compared: int = 1) -> NDArray[np.float64]:
    """By how much each value may be off at `LEVEL` divided by the number of values that are compared."""
    _, errors, degrees = np.broadcast_arrays(*map(_numbers, measured))
    return np.asarray(errors * student_t.isf(LEVEL / 2 / max(compared, 1), degrees))


@dataclass(frozen=True)
class Range:
    """Where a claim says that its values lie, the bounds left out or, if `closed`, included."""

    low: float = -np.inf
    high: float = np.inf
    closed: bool = False

    def __str__(self) -> str:
        equal = "=" if self.closed else ""
        if self.low == self.high:
            return f"= {self.low:g}"
        if np.isfinite(self.low) and np.isfinite(self.high):
            return f"between {self.low:g} and {self.high:g}"
        return f"<{equal} {self.high:g}" if np.isfinite(self.high) else f">{equal} {self.low:g}"

    def judge(self, measured: Measured) -> tuple[float, Verdict]:
        """The verdict on all values together, and the value that decides it.

        Holds if all values are clear inside, each by Student's t at `LEVEL`. Fails if one value is clear outside at
        `LEVEL` divided by the number of sampled values (Bonferroni), since the worst of many is off by chance. Either
        verdict is so by chance with a probability of at most `LEVEL`. The deciding value is the one furthest out, or
        least far in, among those that have the verdict.
        """
        values, errors, _ = (np.ravel(part) for part in np.broadcast_arrays(*map(_numbers, measured)))
        alone = half_width(measured).ravel()
        among = half_width(measured, int((errors > 0).sum())).ravel()
        if self.closed:
            inside = (values - alone >= self.low) & (values + alone <= self.high)
            outside = (values + among < self.low) | (values - among > self.high)
        else:
            inside = (values - alone > self.low) & (values + alone < self.high)
            outside = (values + among <= self.low) | (values - among >= self.high)
        verdict: Verdict = "fails" if outside.any() else "holds" if inside.all() and inside.size else "undecided"
        deciding = {"fails": outside, "holds": inside, "undecided": ~inside & np.isfinite(values)}[verdict]
        if not deciding.any():
            return np.nan, "undecided"
        candidates = values[deciding]
        return float(candidates[np.argmin(np.minimum(candidates - self.low, self.high - candidates))]), verdict


@dataclass(frozen=True)
class Claim:
    """A statement of the paper or of its critics that stored results decide.

    To add one, write its `measure` and name it in a table that `claims.CLAIMS` is made of.
    """

    id: str
    statement: str
    """In a line."""
    source: str
    """Where it is from: theorem, figure, section."""
    figure: str
    """The figure that it belongs to; empty if none."""
    quantity: str
    """What is measured, with units, and what stands for many values."""
    range: Range
    evidence: tuple[str, ...]
    """Names of the datasets that it is read from."""
    measure: Callable[..., Measured]
    """The datasets of `evidence`, in that order, to the values; raises `NotMeasured` where they do not have them."""


class Row(NamedTuple):
    """A line of the table of claims."""

    id: str
    statement: str
    source: str
    figure: str
    quantity: str
    value: float
    threshold: str
    verdict: Verdict
    evidence: str


def assess(claims: Iterable[Claim], datasets: Mapping[str, xr.Dataset]) -> list[Row]:
    """Every claim with its verdict; undecided where a dataset or a setting is missing."""
    rows = []
    for claim in claims:
        found = Measured(np.nan)
        if all(name in datasets for name in claim.evidence):
            with suppress(NotMeasured):
                found = claim.measure(*(datasets[name] for name in claim.evidence))
        value, verdict = claim.range.judge(found)
        words = (claim.id, claim.statement, claim.source, claim.figure, claim.quantity)
        rows.append(Row(*words, value, str(claim.range), verdict, ", ".join(claim.evidence)))
    return rows


def select(data: xr.Dataset, **at: str | float) -> xr.Dataset:
    """The part of a Dataset at exactly these coordinates.

    Raises:
        NotMeasured: where a coordinate is not among those measured.
    """
    for name, value in at.items():
        if value not in data[name].values:
            raise NotMeasured(f"{name} {value}")
    return data.sel(at)


def over_seeds(values: xr.DataArray) -> Measured:
    """Means over seeds and their standard errors; NaN where a seed is not measured, and errors NaN with few seeds."""
    seeds, mean = values.sizes["seed"], values.mean("seed", skipna=False).values
    if seeds < SMALLEST_SAMPLE:
        return Measured(mean, np.nan)
    return Measured(mean, values.std("seed", ddof=1, skipna=False).values / seeds**0.5, seeds - 1)


def by_jackknife(data: xr.Dataset, statistic: Callable[[xr.Dataset], ArrayLike]) -> Measured:
    """A statistic of all seeds, and its standard error from leaving out a seed at a time."""
    seeds, whole = data.sizes["seed"], statistic(data)
    if seeds < SMALLEST_SAMPLE:
        return Measured(whole, np.nan)
    without = [statistic(data.isel(seed=[i for i in range(seeds) if i != left])) for left in range(seeds)]
    return over_blocks(whole, [_numbers(value) for value in without], np.ones(seeds))


def over_blocks(whole: ArrayLike, without: ArrayLike, sizes: ArrayLike) -> Measured:
    """An estimate and its standard error, from the estimates without a block of seeds; NaN with few blocks."""
    blocks = len(_numbers(sizes))
    if blocks < SMALLEST_SAMPLE:
        return Measured(whole, np.nan)
    return Measured(whole, jackknife_error(whole, without, sizes), blocks - 1)


def several(found: Iterable[Measured]) -> Measured:
    """All values of several measurements."""
    parts = [np.broadcast_arrays(*map(_numbers, measured)) for measured in found]
    return Measured(*(np.concatenate([np.ravel(part[i]) for part in parts]) for i in range(3)))


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)
