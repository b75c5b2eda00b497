"""The table of claims: what is written is read again, and a bad file is a sentence."""

import csv
import json
import math
import re
from pathlib import Path

import pytest

from collapse.claims.table import ClaimRow, counts, read_claims, write_claims
from collapse.errors import CollapseError

ROWS = [
    ClaimRow("3.2", "it grows, <i>always</i>", "Theorem 3.2", "1", "smallest", 0.1 + 0.2, "> 0", "holds", "increments"),
    ClaimRow("first", "||E[P] - C_n|| is small", "F.2", "9", 'error, in "%"', 2.51, "< 2", "fails", "attention"),
    ClaimRow("c7", "", "Lemma C.7", "", "spread", math.nan, "> 0", "undecided", ""),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    write_claims(ROWS, tmp_path / "claims.csv")
    return tmp_path / "claims.csv"


def test_csv_and_json_hold_the_same_rows(path: Path) -> None:
    for again, row in zip(read_claims(path), ROWS, strict=True):
        assert again.value == row.value or (math.isnan(again.value) and math.isnan(row.value))
        assert again._replace(value=0.0) == row._replace(value=0.0)
    for entry, row in zip(json.loads(path.with_suffix(".json").read_text()), ROWS, strict=True):
        assert entry == row._asdict() | {"value": None if math.isnan(row.value) else row.value}
    with path.open(newline="") as file:
        assert next(csv.reader(file)) == list(ClaimRow._fields)


def test_rows_in_print() -> None:
    assert [row.number for row in ROWS] == ["0.3", "2.51", "–"]
    assert [row.mark for row in ROWS] == ["✓", "✗", "?"]
    assert counts(ROWS) == "1 claim holds, 1 fails, 1 is undecided."
    assert counts(ROWS[:2] * 2) == "2 claims hold, 2 fail, 0 are undecided."


@pytest.mark.parametrize(
    ("before", "after", "message"),
    [
        (",fails,", ",refuted,", "claim first: the verdict should be one of fails, undecided, holds (got 'refuted')"),
        ("2.51", "small", "claim first: the value should be a number (got 'small')"),
        ("id,statement", "name,statement", "column id is missing; compute the claims again"),
    ],
)
def test_a_bad_table_is_a_sentence(path: Path, before: str, after: str, message: str) -> None:
    path.write_text(path.read_text().replace(before, after))
    with pytest.raises(CollapseError, match=re.escape(message)):
        read_claims(path)


@pytest.mark.parametrize("content", [None, "", '"', "id\x00,"])
def test_no_table_is_a_sentence(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "claims.csv").write_text(content)
    with pytest.raises(CollapseError, match=r"claims\.csv: "):
        read_claims(tmp_path / "claims.csv")
