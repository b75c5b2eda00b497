"""The miniature pipeline through Slurm, with the profile that users have: all is there, and what it was without."""

from typing import Any

import pandas as pd
import pytest
import xarray as xr

from collapse.config.root import parse
from collapse.pipeline.gallery import figures
from collapse.pipeline.paths import ResultPaths
from collapse.store.read import load_run

pytestmark = pytest.mark.slurm


@pytest.fixture(scope="module")
def paths(pipeline: Any) -> ResultPaths:
    assert pipeline.wait() == 0, pipeline.said
    return ResultPaths(pipeline.project.folder / "results/miniature")


def test_every_figure_and_the_report_are_there(paths: ResultPaths, miniature: dict[str, Any]) -> None:
    for name in figures(parse(miniature)):
        assert (paths.figures / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
        assert (paths.figures / f"{name}.pdf").read_bytes().startswith(b"%PDF"), name
    assert "</html>" in (paths.root / "report.html").read_text()


def test_the_numbers_are_those_of_a_laptop(paths: ResultPaths, finished: Any, miniature: dict[str, Any]) -> None:
    laptop = ResultPaths(finished.folder / "results/miniature")
    for table in ("summary.csv", "claims.csv"):
        pd.testing.assert_frame_equal(pd.read_csv(paths.root / table), pd.read_csv(laptop.root / table))
    for run in parse(miniature).runs:
        xr.testing.assert_equal(load_run(paths.run(run)), load_run(laptop.run(run)))
    for store in ("train.bin", "validation.bin"):
        (here,), (there,) = (list(root.root.glob(f"tokens/*/{store}")) for root in (paths, laptop))
        assert here.read_bytes() == there.read_bytes()


def test_small_jobs_share_slurm_jobs(paths: ResultPaths, pipeline: Any, cluster: Any) -> None:
    assert paths.root.is_dir()
    steps = pipeline.said.count("Finished jobid: ")
    submitted = pipeline.said.count("has been submitted with SLURM jobid")
    assert steps == 35
    assert submitted < steps / 2


def test_nothing_is_left_to_do(paths: ResultPaths, submitter: Any, pipeline: Any) -> None:
    again = submitter.start(pipeline.project, "miniature.yaml", "--dry-run")
    assert again.wait(120) == 0
    assert "Nothing to be done" in again.said
