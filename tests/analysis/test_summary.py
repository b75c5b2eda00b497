from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import collapse
from collapse.analysis.summary import read_table, row, write_table
from collapse.config.analysis import AnalysisConfig
from collapse.errors import CollapseError

Make = Callable[..., xr.Dataset]
Publish = Callable[[xr.Dataset, Path], Path]


@pytest.fixture
def results(make_run: Make, publish_run: Publish, tmp_path: Path) -> Path:
    publish_run(make_run("collapsing", layers=3), tmp_path)
    publish_run(make_run("stable", layers=3, lr=1e-3, seed=3, placement="pre"), tmp_path)
    publish_run(make_run("early", layers=3, scope="sequence", warmup_steps=0), tmp_path)
    return tmp_path


def test_one_row_per_run(results: Path) -> None:
    summary = collapse.summarize(results)
    assert summary.index.name == "run_id"
    assert summary.index.is_unique
    assert {
        "placement", "lr", "warmup_steps", "seed", "scope", "steps", "collapsed", "transition_step", "loss_final",
        "tsim_final", "freq_loss",
    } <= set(summary.columns)  # fmt: skip
    assert summary["collapsed"].dtype == bool
    by_scope = summary.set_index(["placement", "scope"])
    late, stable, early = (by_scope.loc[key] for key in (("post", "stream"), ("pre", "stream"), ("post", "sequence")))
    assert (late["collapsed"], stable["collapsed"], early["collapsed"]) == (True, False, True)
    assert early["transition_step"] < 50 < 250 < late["transition_step"] < 310
    assert np.isnan(stable["transition_step"])
    assert (stable["lr"], stable["seed"], stable["warmup_steps"], stable["steps"]) == (1e-3, 3, 4, 400)
    assert late["loss_before_transition"] < late["freq_loss"] - 0.5
    assert late["loss_final"] == pytest.approx(late["freq_loss"], abs=0.1)
    assert late["tsim_final"] > 0.99


def test_final_values_are_means_over_the_last_measured_steps(make_run: Make) -> None:
    run = make_run("stable", steps=50, layers=2)
    run["loss"][-3:] = np.nan
    run["tsim_final"][-3:] = np.nan
    summarized = row(run, AnalysisConfig(final_steps=10))
    assert summarized["steps"] == 50
    assert summarized["loss_final"] == pytest.approx(float(run["loss"][37:47].mean()))
    assert summarized["tsim_final"] == pytest.approx(float(run["tsim_final"][37:47].mean()))


def test_the_step_that_ended_a_run_early_counts(make_run: Make) -> None:
    run = make_run("stable", steps=20, layers=2).assign_attrs(ended="the loss was NaN at step 19")
    run["loss"][-1] = np.nan
    run["tsim_final"][-1] = np.nan
    summarized = row(run, AnalysisConfig(final_steps=5))
    assert (summarized["steps"], summarized["ended"]) == (20, "the loss was NaN at step 19")
    assert summarized["loss_final"] == pytest.approx(float(run["loss"][14:19].mean()))


def test_steps_that_were_not_recorded(make_run: Make) -> None:
    whole = make_run(steps=400, layers=2)
    kept = sorted({*range(0, 400, 7), *range(280, 310), 399})
    summarized, expected = (row(run, AnalysisConfig()) for run in (whole.isel(step=kept), whole))
    assert summarized["steps"] == 400
    assert summarized["transition_step"] == expected["transition_step"]
    ends = [step for step in kept if step >= 380]
    assert summarized["loss_final"] == pytest.approx(float(whole["loss"][ends].mean()))
    assert summarized["tsim_final"] == pytest.approx(float(whole["tsim_final"][ends].mean()))


@pytest.mark.parametrize("steps", [1, 2, 12])
def test_short_runs(make_run: Make, steps: int) -> None:
    assert row(make_run(steps=steps, layers=2), AnalysisConfig())["steps"] == steps


def test_a_run_that_never_measured_anything(make_run: Make) -> None:
    run = make_run(steps=5, layers=2)
    run["loss"][:] = np.nan
    run["tsim_final"][:] = np.nan
    summarized = row(run, AnalysisConfig())
    assert (summarized["steps"], summarized["collapsed"]) == (5, False)
    assert np.isnan(summarized["loss_final"])


def test_the_table_on_disk_is_what_summarize_gives(results: Path) -> None:
    runs = sorted((results / "runs").iterdir())
    out = results / "summary.csv"
    write_table(runs, AnalysisConfig(final_steps=30), out)
    expected = collapse.summarize(str(results), AnalysisConfig(final_steps=30))
    pd.testing.assert_frame_equal(read_table(out), expected, check_exact=True)


def test_no_run_no_table(results: Path) -> None:
    with pytest.raises(CollapseError, match="no run here"):
        write_table([results / "nowhere"], AnalysisConfig(), results / "summary.csv")
    assert not (results / "summary.csv").exists()


def test_nothing_to_summarize(tmp_path: Path) -> None:
    with pytest.raises(CollapseError, match="no finished runs"):
        collapse.summarize(tmp_path)
