"""The table of runs, `summary.csv`: one row per run with what it was and how it ended."""

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from collapse.analysis.transition import find_transition, last_steps, loss_before
from collapse.config.analysis import AnalysisConfig
from collapse.files import write_atomic
from collapse.store.read import finished_runs, load_run, spec_of


def summarize(results: str | Path, config: AnalysisConfig | None = None) -> pd.DataFrame:
    """One row per finished run of a results folder; index `run_id`, columns as in `row`.

    Args:
        results: `results/<name>`.
        config: Thresholds; the defaults if omitted.

    Raises:
        CollapseError: where no run is finished, or a finished run is damaged.
    """
    return table(finished_runs(results), config or AnalysisConfig())


def table(runs: Iterable[Path], config: AnalysisConfig) -> pd.DataFrame:
    """One row per run, in the given order; index `run_id`, columns as in `row`.

    Args:
        runs: Folders of finished runs.
        config: Thresholds.

    Raises:
        CollapseError: where a run is missing, unfinished or damaged.
    """
    return pd.DataFrame([row(load_run(run), config) for run in runs]).set_index("run_id")


def row(run: xr.Dataset, config: AnalysisConfig) -> dict[str, Any]:
    """A run's row.

    Returns:
        `run_id`, `placement`, `lr` (peak), `warmup_steps`, `seed` and `scope` from the run's spec; `steps`, how many
        the run made, recorded or not; `collapsed`, `transition_step` and `transition_length` (steps; NaN without a
        transition); `loss_before_transition`, see `loss_before`; `loss_final` and `tsim_final`, means over the recorded
        steps among the last `final_steps`; `freq_loss` of the run's scope and `validation_loss`; `ended`: "completed",
        or why the run ended early. Losses in nats.
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
    """The table of a CSV file that `write_table` wrote."""
    return pd.read_csv(path, index_col="run_id", float_precision="round_trip")


def write_table(runs: Sequence[Path], config: AnalysisConfig, out: Path) -> None:
    """Write the table of runs as CSV.

    Args:
        runs: Folders of finished runs, in the order of the rows.
        config: Thresholds.
        out: The CSV file.

    Raises:
        CollapseError: where a run is missing, unfinished or damaged; nothing is written then.
    """
    write_atomic(out, table(runs, config).to_csv())
