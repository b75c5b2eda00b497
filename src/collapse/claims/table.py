"""The table of claims, `claims.csv`: one row per claim with its verdict."""

import json
import math
from collections import Counter
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import pandas as pd

from collapse.errors import CollapseError
from collapse.files import write_atomic

Verdict = Literal["fails", "undecided", "holds"]
MARKS: dict[Verdict, str] = {"fails": "✗", "undecided": "?", "holds": "✓"}
"""Verdict to the sign that distinguishes it without colour; in the order of the report."""


class ClaimRow(NamedTuple):
    """One row of the table."""

    id: str
    statement: str
    source: str
    figure: str
    """Number or name of the figure that the claim belongs to; empty if none."""
    quantity: str
    value: float
    """The value that decides; NaN where nothing was measured."""
    threshold: str
    verdict: Verdict
    evidence: str
    """Names of the datasets, separated by commas."""

    @property
    def mark(self) -> str:
        """Sign of the verdict."""
        return MARKS[self.verdict]

    @property
    def number(self) -> str:
        """The value in print, to four digits."""
        return "–" if math.isnan(self.value) else f"{self.value:.4g}"


def write_claims(rows: Iterable[ClaimRow], path: Path) -> None:
    """Write rows as CSV and, beside it, as JSON, where an unknown value is null."""
    rows = list(rows)
    plain = [row._asdict() | {"value": None if math.isnan(row.value) else row.value} for row in rows]
    write_atomic(path, pd.DataFrame(rows, columns=list(ClaimRow._fields)).to_csv(index=False))
    write_atomic(path.with_suffix(".json"), json.dumps(plain, indent=2, allow_nan=False) + "\n")


def read_claims(path: Path) -> list[ClaimRow]:
    """The rows of a CSV file that `write_claims` wrote.

    Raises:
        CollapseError: where the file is missing or is not such a table.
    """
    columns = ClaimRow._fields
    try:
        table = pd.read_csv(path, dtype=str, keep_default_na=False)
    except FileNotFoundError:
        raise CollapseError(f"{path}: the table of claims is missing; compute the claims first") from None
    except ValueError as error:
        raise CollapseError(f"{path}: cannot be read as CSV: {error}; compute the claims again") from None
    if missing := [column for column in columns if column not in table]:
        raise CollapseError(f"{path}: column {missing[0]} is missing; compute the claims again")
    return [_row(path, dict(zip(columns, fields, strict=True))) for fields in table[list(columns)].to_numpy()]


def _row(path: Path, fields: dict[str, str]) -> ClaimRow:
    problem = f"{path}: claim {fields['id']}"
    if fields["verdict"] not in MARKS:
        raise CollapseError(f"{problem}: the verdict should be one of {', '.join(MARKS)} (got {fields['verdict']!r})")
    try:
        value = float(fields["value"] or "nan")
    except ValueError:
        raise CollapseError(f"{problem}: the value should be a number (got {fields['value']!r})") from None
    return ClaimRow(**{**fields, "value": value})  # type: ignore[arg-type]


def counts(rows: Sequence[ClaimRow]) -> str:
    """How many claims have which verdict: `1 claim holds, 2 fail, 0 are undecided.`"""
    found = Counter(row.verdict for row in rows)
    fails, undecided, holds = (found[verdict] for verdict in MARKS)
    return (
        f"{holds} claim{' holds' if holds == 1 else 's hold'}, {fails} {'fails' if fails == 1 else 'fail'}, "
        f"{undecided} {'is' if undecided == 1 else 'are'} undecided."
    )
