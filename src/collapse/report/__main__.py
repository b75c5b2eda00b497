"""Write the report.

python -m collapse.report --config CONFIG_JSON --results results/<name> --summary results/<name>/summary.csv
    --claims results/<name>/claims.csv --out results/<name>/report.html
"""

import argparse
import json
from pathlib import Path

from collapse.analysis.summary import read_table
from collapse.claims.table import read_claims
from collapse.config.base import ConfigError
from collapse.config.root import Config, parse
from collapse.errors import CollapseError, run_stage
from collapse.files import write_atomic
from collapse.report.page import render


def _config(text: str) -> Config:
    try:
        return parse(json.loads(text), "--config")
    except ConfigError as error:
        raise CollapseError(str(error)) from None
    except ValueError as error:
        raise CollapseError(f"--config: should be JSON: {error} (got {text[:80]!r})") from None


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m collapse.report", description="Write the report.")
    parser.add_argument("--config", required=True, help="the whole config, JSON")
    parser.add_argument(
        "--results", required=True, type=Path, help="results folder with runs/, probes/, theory/ and figures/"
    )
    parser.add_argument("--summary", required=True, type=Path, help="summary.csv of the runs")
    parser.add_argument("--claims", required=True, type=Path, help="claims.csv, what was checked")
    parser.add_argument("--out", required=True, type=Path, help="HTML file to write")
    options = parser.parse_args()
    config = _config(options.config)
    page = render(config, options.results, read_table(options.summary), read_claims(options.claims))
    write_atomic(options.out, page)


if __name__ == "__main__":
    run_stage(_main)
