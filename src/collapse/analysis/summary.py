"""The table of runs: what each was, and what became of it.

python -m collapse.analysis.summary --spec ANALYSIS_JSON --runs RUNDIR... --out results/<name>/summary.csv
"""

import argparse
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from collapse.analysis.transition import find_transition, last_steps, loss_before
from collapse.config.analysis import AnalysisConfig
from collapse.config.option import parse_option
from collapse.errors import run_stage
from collapse.files import write_atomic
from collapse.store.read import finished_runs, load_run, spec_of


def summarize(results: str | Path, config: AnalysisConfig | None = None) -> pd.DataFrame:
    """One row a finished run of a results folder; index `run_id`, columns as in `row`.

    Args:
        results: `results/<name>`.
        config: Thresholds; the default ones if left out.

    Raises:
        CollapseError: where no run is finished, or a finished one is damaged.
    """
    return table(finished_runs(results), config or AnalysisConfig())


def table(runs: Iterable[Path], config: AnalysisConfig) -> pd.DataFrame:
    """One row a run, in the given order.

    Args:
        runs: Folders of finished runs.
        config: Thresholds.
    """
    return pd.DataFrame([row(load_run(run), config) for run in runs]).set_index("run_id")


def row(run: xr.Dataset, config: AnalysisConfig) -> dict[str, Any]:
    """A run in a line.

    Returns:
        `run_id`, `placement`, `lr` (peak), `warmup_steps`, `seed`, `scope` from its spec; `steps` that it made,
        recorded or not; `collapsed`, `transition_step` and `transition_length` (steps; NaN where none);
        `loss_before_transition`, the lowest that it had learned to by then (by its end where none); `loss_final` and
        `tsim_final`, means over what was recorded of its last `final_steps`; `freq_loss` of its own scope and
        `validation_loss`; `ended`: "completed", or why it did not. Losses in nats.
    """
    spec = spec_of(run)
    training = spec["training"]
    measured = run[["step", "loss", "tsim_final"]].to_dataframe().dropna(how="all")
    final = measured[last_steps(measured.index.to_numpy(), config.final_steps)].mean()
    transition = find_transition(measured.index, measured["tsim_final"], config)
    return {
        "run_id": run.attrs["run_id"],
        "placement": spec["model"]["placement"],
        "lr": training["lr"],
        "warmup_steps": training["warmup_steps"],
        "seed": training["seed"],
        "scope": training["scope"],
        "steps": int(run["step"][-1]) + 1,
        "collapsed": transition.collapsed,
        "transition_step": transition.step,
        "transition_length": transition.length,
        "loss_before_transition": loss_before(run, transition.step, config),
        "loss_final": final["loss"],
        "tsim_final": final["tsim_final"],
        "freq_loss": float(run["freq_loss"]),
        "validation_loss": float(run.get("validation_loss", np.nan)),
        "ended": run.attrs["ended"],
    }


def read_table(path: Path) -> pd.DataFrame:
    """The table that this module's command wrote."""
    return pd.read_csv(path, index_col="run_id", float_precision="round_trip")


def _main() -> None:
    parser = argparse.ArgumentParser(prog="python -m collapse.analysis.summary", description=__doc__)
    parser.add_argument("--spec", required=True, help="the config's `analysis` section, JSON")
    parser.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of finished runs")
    parser.add_argument("--out", required=True, type=Path, help="CSV file to write")
    options = parser.parse_args()
    summary = table(options.runs, parse_option(AnalysisConfig, "--spec", options.spec))
    write_atomic(options.out, summary.to_csv())


if __name__ == "__main__":
    run_stage(_main)
