"""What a claim is, and how a number with a standard error becomes a verdict."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from collapse.probes.jackknife import jackknife_error

Verdict = Literal["holds", "fails", "undecided"]
ERRORS = 2.0
"""Standard errors by which a mean must be clear of a threshold."""


class NotMeasured(Exception):  # noqa: N818 - no failure: the claim is undecided
    """What a claim asks about is not in the results."""


class Measured(NamedTuple):
    """One or more values that the claim speaks of, and their standard errors; they broadcast.

    An error of 0 is of what was not sampled; an unknown one is NaN.
    """

    values: ArrayLike
    errors: ArrayLike = 0.0


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

        Fails if one value is clear of the range, holds if all are clear inside; clear is by `ERRORS` standard errors.
        The deciding value is the one furthest out, or least far in, among those that have the verdict.
        """
        values, errors = (np.ravel(part) for part in np.broadcast_arrays(*map(_numbers, measured)))
        below, above = values - ERRORS * errors, values + ERRORS * errors
        inside = (below >= self.low) & (above <= self.high) if self.closed else (below > self.low) & (above < self.high)
        outside = (
            (above < self.low) | (below > self.high) if self.closed else (above <= self.low) | (below >= self.high)
        )
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
    """Means over seeds and their standard errors; NaN where a seed is not measured, and errors NaN with one seed."""
    if values.sizes["seed"] < 2:
        return Measured(values.mean("seed", skipna=False).values, np.nan)
    error = values.std("seed", ddof=1, skipna=False) / values.sizes["seed"] ** 0.5
    return Measured(values.mean("seed", skipna=False).values, error.values)


def by_jackknife(data: xr.Dataset, statistic: Callable[[xr.Dataset], ArrayLike]) -> Measured:
    """A statistic of all seeds, and its standard error from leaving out a seed at a time."""
    seeds, whole = data.sizes["seed"], _numbers(statistic(data))
    if seeds < 2:
        return Measured(whole, np.nan)
    without = [_numbers(statistic(data.isel(seed=[i for i in range(seeds) if i != left]))) for left in range(seeds)]
    return Measured(whole, jackknife_error(whole, without, np.ones(seeds)))


def several(found: Iterable[Measured]) -> Measured:
    """All values of several measurements."""
    pairs = [np.broadcast_arrays(*map(_numbers, measured)) for measured in found]
    return Measured(*(np.concatenate([np.ravel(pair[i]) for pair in pairs]) for i in range(2)))


def _numbers(values: ArrayLike) -> NDArray[np.float64]:
    return np.asarray(values, np.float64)
