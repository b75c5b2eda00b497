"""Which statements of the paper hold: one row a claim, each verdict computed from stored results.

python -m collapse.claims.table --increments ZARR --attention ZARR --approximations ZARR --collapsed-states ZARR
    --swiglu-moment ZARR --concentration ZARR --out results/<name>/claims.csv

The same rows go to `claims.json` beside it. A dataset that is not given leaves its claims undecided.
"""

import argparse
import json
import math
from collections.abc import Iterable
from pathlib import Path

import pandas as pd

from collapse.claims import attention as claims_attention
from collapse.claims import checks as claims_collapsed
from collapse.claims import initialization as claims_increments
from collapse.claims import row_norms as claims_rows
from collapse.claims import theory as claims_theory
from collapse.claims.judging import Claim, Row, assess
from collapse.errors import run_stage
from collapse.files import write_atomic
from collapse.store.dataset import load_dataset

CLAIMS: tuple[Claim, ...] = (
    *claims_increments.CLAIMS,
    *claims_rows.CLAIMS,
    *claims_theory.CLAIMS,
    *claims_attention.CLAIMS,
    *claims_collapsed.CLAIMS,
)
"""Every claim, in the order of the table."""
DATASETS = ("increments", "attention", "approximations", "collapsed_states", "swiglu_moment", "concentration")
"""What claims are read from: an option of the command each."""


def write_claims(rows: Iterable[Row], path: Path) -> None:
    """Write rows as CSV and, beside it, as JSON, where a value that is not known is null."""
    rows = list(rows)
    plain = [row._asdict() | {"value": None if math.isnan(row.value) else row.value} for row in rows]
    write_atomic(path, pd.DataFrame(rows, columns=list(Row._fields)).to_csv(index=False))
    write_atomic(path.with_suffix(".json"), json.dumps(plain, indent=2, allow_nan=False) + "\n")


def read_claims(path: Path) -> list[Row]:
    """The rows that this module's command wrote as CSV."""
    table = pd.read_csv(path, keep_default_na=False, na_values={"value": [""]}, float_precision="round_trip")
    return [Row(*fields) for fields in table[list(Row._fields)].itertuples(index=False)]


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m collapse.claims.table", description=__doc__)
    for name in DATASETS:
        parser.add_argument(f"--{name.replace('_', '-')}", type=Path, help="Zarr folder")
    parser.add_argument("--out", required=True, type=Path, help="CSV file to write; JSON is written beside it")
    options = vars(parser.parse_args())
    datasets = {name: load_dataset(options[name]) for name in DATASETS if options[name] is not None}
    write_claims(assess(CLAIMS, datasets), options["out"])


if __name__ == "__main__":
    run_stage(_main)
