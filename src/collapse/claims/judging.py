"""What a claim is, and how values with standard errors become a verdict."""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
import xarray as xr

from collapse.analysis.uncertainty import Measured, NotMeasured, half_width
from collapse.claims.table import ClaimRow, Verdict

SAMPLED = 4.0
"""Largest distance, in standard errors, that sampling noise explains where many Monte Carlo means are compared."""


@dataclass(frozen=True)
class Range:
    """Where a claim says that its values lie; the bounds belong to it if it is `closed`."""

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
        """The value that decides, and the verdict on all values together.

        The claim holds if every value is clearly inside, each by Student's t at `LEVEL`. It fails if one value is
        clearly outside at `LEVEL` divided by the number of sampled values (Bonferroni), since the worst of many values
        is far out by chance. Chance alone causes either verdict with a probability of at most `LEVEL`. Of the values
        that have the verdict, the one that lies furthest out, or least far in, decides.
        """
        values, errors, _ = (np.ravel(part) for part in measured.broadcast())
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

    To add one, write its `measure` and an entry in the `CLAIMS` of its group.
    """

    id: str
    statement: str
    """One line."""
    source: str
    """Theorem, figure or section that states it."""
    figure: str
    """Number or name of the figure that it belongs to; empty if none."""
    quantity: str
    """What is measured, with units, and which of many values decides."""
    range: Range
    evidence: tuple[str, ...]
    """Names of the datasets that it reads."""
    measure: Callable[..., Measured]
    """Takes the datasets of `evidence`, in that order; raises `NotMeasured` where they lack what it needs."""


def assess(claims: Iterable[Claim], datasets: Mapping[str, xr.Dataset]) -> list[ClaimRow]:
    """Every claim with its verdict; undecided where a dataset or a setting is missing.

    Args:
        claims: What to decide.
        datasets: Name to Dataset; none has to be there.
    """
    rows = []
    for claim in claims:
        found = Measured(np.nan)
        if all(name in datasets for name in claim.evidence):
            with suppress(NotMeasured):
                found = claim.measure(*(datasets[name] for name in claim.evidence))
        value, verdict = claim.range.judge(found)
        words = (claim.id, claim.statement, claim.source, claim.figure, claim.quantity)
        rows.append(ClaimRow(*words, value, str(claim.range), verdict, ", ".join(claim.evidence)))
    return rows
