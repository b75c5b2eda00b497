"""Claims as the report shows them, read from the table that the analysis wrote."""

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd

from collapse.errors import CollapseError
from collapse.pipeline.gallery import Figure

MARKS = {"fails": "✗", "undecided": "?", "holds": "✓"}
"""Verdicts, and the signs that tell them apart without colour; in the order of the page."""
COLUMNS = ("id", "statement", "source", "figure", "quantity", "value", "threshold", "verdict", "evidence")


@dataclass(frozen=True)
class Claim:
    """A row of claims.csv."""

    id: str
    statement: str
    source: str
    figure: str
    """Figure that it belongs to, as the table has it; may be empty."""
    quantity: str
    value: float
    """NaN where nothing was measured."""
    threshold: str
    verdict: str
    evidence: str

    @property
    def mark(self) -> str:
        """Sign of the verdict."""
        return MARKS[self.verdict]

    @property
    def number(self) -> str:
        """The value in print, to four digits."""
        return "–" if math.isnan(self.value) else f"{self.value:.4g}"


def read_claims(path: Path) -> list[Claim]:
    """The claims of a table: those that fail, the undecided, those that hold, each in the order of the table.

    Raises:
        CollapseError: where it is missing, or is not such a table.
    """
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise CollapseError(f"{path}: the claims are missing; compute them before making the report") from None
    except ValueError as error:
        raise CollapseError(f"{path}: cannot be read as CSV: {error}; compute the claims again") from None
    if missing := [column for column in COLUMNS if column not in table]:
        raise CollapseError(f"{path}: column {missing[0]} is missing; compute the claims again")
    rows = table[list(COLUMNS)].itertuples(index=False)
    claims = [_claim(path, dict(zip(COLUMNS, row, strict=True))) for row in rows]
    return sorted(claims, key=lambda claim: list(MARKS).index(claim.verdict))


def _claim(path: Path, row: Mapping[str, str]) -> Claim:
    problem = f"{path}: claim {row['id']}"
    if row["verdict"] not in MARKS:
        raise CollapseError(f"{problem}: the verdict should be one of {', '.join(MARKS)} (got {row['verdict']!r})")
    try:
        value = float(row["value"] or "nan")
    except ValueError:
        raise CollapseError(f"{problem}: the value should be a number (got {row['value']!r})") from None
    return Claim(**{**row, "value": value})  # type: ignore[arg-type]


def counts(claims: Sequence[Claim]) -> str:
    """How many claims have which verdict: `1 claim holds, 2 fail, 0 are undecided.`"""
    found = Counter(claim.verdict for claim in claims)
    fails, undecided, holds = (found[verdict] for verdict in MARKS)
    return (
        f"{holds} claim{' holds' if holds == 1 else 's hold'}, {fails} {'fails' if fails == 1 else 'fail'}, "
        f"{undecided} {'is' if undecided == 1 else 'are'} undecided."
    )


def linked(claims: Sequence[Claim], figures: Mapping[str, Figure]) -> dict[str, str]:
    """Names of the config's figures that claims refer to, by what the claims call them: a name, or a number."""
    names = {name: name for name in figures}
    names |= {str(figure.number): name for name, figure in figures.items() if figure.number is not None}
    return {claim.figure: names[claim.figure] for claim in claims if claim.figure in names}
