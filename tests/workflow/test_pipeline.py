"""The whole workflow, from text to report, once and for real."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from html.parser import HTMLParser
from typing import Any

import numpy as np
import pandas as pd
import pytest

from collapse.config.root import Config, parse
from collapse.files import tree_digest
from collapse.pipeline.gallery import figures
from collapse.pipeline.paths import ResultPaths
from collapse.recording.statistics import METRICS
from collapse.store.read import open_run, open_runs


@pytest.fixture
def config(miniature: dict[str, Any]) -> Config:
    return parse(miniature)


@pytest.fixture
def paths(finished: Any) -> ResultPaths:
    return ResultPaths(finished.folder / "results/miniature")


def test_every_run_is_stored_whole(config: Config, paths: ResultPaths) -> None:
    for run_id, spec in config.runs.items():
        folder = paths.run(run_id)
        manifest = json.loads((folder / "manifest.json").read_text())
        assert manifest["digest"] == tree_digest(folder / "metrics.zarr")
        run = open_run(folder)
        assert json.loads(run.attrs["spec"]) == spec.canonical()
        assert run.attrs["ended"] == "completed"
        assert dict(run.sizes) == {"step": 12, "layer": 4, "sublayer": 2}
        assert {metric.name for metric in METRICS} <= set(run.data_vars)
        for name in ("loss", "tsim_final", "grad_norm", "alpha", "contraction"):
            assert np.isfinite(run[name]).all(), name
    assert set(open_runs(paths.root).children) == set(config.runs)


def test_the_summary_has_one_row_per_run(config: Config, paths: ResultPaths) -> None:
    summary = pd.read_csv(paths.root / "summary.csv", index_col="run_id")
    assert list(summary.index) == list(config.runs)
    assert list(summary["lr"]) == [1e-3, 1e-2]


def test_every_figure_is_drawn_twice(config: Config, paths: ResultPaths) -> None:
    for name in figures(config):
        assert (paths.figures / f"{name}.png").read_bytes().startswith(b"\x89PNG"), name
        assert (paths.figures / f"{name}.pdf").read_bytes().startswith(b"%PDF"), name


def test_the_report_is_one_self_contained_page(config: Config, paths: ResultPaths) -> None:
    class Page(HTMLParser):
        pictures = 0

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            for key, value in attrs:
                if key in ("src", "href") and tag != "a":
                    assert value is not None and value.startswith("data:")
            self.pictures += tag == "img"

    text = (paths.root / "report.html").read_text()
    page = Page()
    page.feed(text)
    assert page.pictures == len(figures(config))
    assert all(run_id in text for run_id in config.runs)


def test_every_job_leaves_a_log_and_its_cost(config: Config, paths: ResultPaths) -> None:
    jobs = ["summary", "claims", "report", *(f"train/{run_id}" for run_id in config.runs)]
    jobs += [f"{stage}/{config.data.tokens_id}" for stage in ("tokenizer", "tokenize")]
    jobs += [f"probes/{name}" for name in ("increments-0-2", "increments", "attention-2-3", "approximations")]
    jobs += [f"theory/{name}" for name in ("swiglu_moment", "concentration")]
    for job in [*jobs, *(f"figures/{name}" for name in figures(config))]:
        assert (paths.logs / f"{job}.log").exists(), job
        assert (paths.benchmarks / f"{job}.tsv").read_text().startswith("s\th:m:s\tmax_rss"), job


def test_progress_is_on_the_terminal_and_in_the_log(finished: Any, config: Config, paths: ResultPaths) -> None:
    for run_id in config.runs:
        line = rf"{run_id}: .*, step 12/12, loss \d\.\d+, frequency loss \d\.\d+, tsim \d\.\d+, .* tokens/s"
        assert re.search(line, (paths.logs / f"train/{run_id}.log").read_text())
        assert re.search(line, (finished.folder / "first.log").read_text())


def test_nothing_temporary_is_left(paths: ResultPaths) -> None:
    scratch = list((paths.root / "scratch").glob("*/*"))
    hidden = [path for path in paths.root.rglob(".*") if path.name != ".snakemake_timestamp"]
    assert scratch == hidden == []


def test_the_second_time_there_is_nothing_to_be_done(finished: Any) -> None:
    for options in ((), ("--dry-run",)):
        ran = finished.snakemake("--configfile=miniature.yaml", *options)
        assert ran.returncode == 0
        assert "Nothing to be done" in ran.stdout


@contextmanager
def at_work(project: Any, configfile: str, until: Callable[[], bool]) -> Iterator[subprocess.Popen[bytes]]:
    """A snakemake in the background, from the moment that something can be seen; interrupted at the end."""
    process = subprocess.Popen(
        project.command("--cores=1", f"--configfile={configfile}"),
        cwd=project.folder,
        env=project.environment(),
        start_new_session=True,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        deadline = time.monotonic() + 120
        while not until():
            assert process.poll() is None and time.monotonic() < deadline
            time.sleep(0.05)
        yield process
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


def test_a_second_snakemake_on_the_same_results_is_refused(finished: Any, miniature: dict[str, Any]) -> None:
    configfile = finished.write_config(miniature | {"name": "locked"}, "locked.yaml")
    locks = finished.folder / ".snakemake/locks"
    with at_work(finished, configfile, until=lambda: locks.is_dir() and any(locks.iterdir())):
        second = finished.snakemake("--cores=1", f"--configfile={configfile}")
    assert second.returncode != 0
    assert "Directory cannot be locked" in second.stdout
    assert "no other Snakemake process is trying to create the same files" in second.stdout


def test_after_a_kill_the_same_command_resumes_from_the_checkpoint(finished: Any, miniature: dict[str, Any]) -> None:
    miniature |= {"name": "killed", "grid": {"product": {"lr": [1e-3]}}}
    miniature["training"] |= {"steps": 400}
    miniature["execution"] |= {"checkpoint_every": 10}
    configfile = finished.write_config(miniature, "killed.yaml")
    (run_id,) = parse(miniature).runs
    results = finished.folder / "results/killed"
    with at_work(finished, configfile, until=lambda: any(results.glob("scratch/*/checkpoints/*.json"))) as snakemake:
        os.killpg(snakemake.pid, signal.SIGKILL)
    target = f"results/killed/runs/{run_id}/manifest.json"
    refused = finished.snakemake("--cores=1", f"--configfile={configfile}", target)
    assert refused.returncode != 0
    assert "--unlock" in refused.stdout
    assert finished.snakemake(f"--configfile={configfile}", "--unlock").returncode == 0
    resumed = finished.snakemake("--cores=1", f"--configfile={configfile}", target)
    assert resumed.returncode == 0, resumed.stdout
    assert f"{run_id}: resuming from the checkpoint of step " in resumed.stdout
    assert open_run(results / "runs" / run_id).sizes["step"] == 400
    log = (results / f"logs/train/{run_id}.attempts.log").read_text()
    assert len(re.findall(r"^attempt of \d{4}-\d\d-\d\d \d\d:\d\d:\d\d on \S+$", log, re.M)) == 2


def test_a_failing_run_stops_neither_the_others_nor_loses_anything(finished: Any, miniature: dict[str, Any]) -> None:
    """A corrupt token store fails two trainings and four probes, each with a sentence; what was finished stays."""
    miniature["name"] = "broken"
    configfile = finished.write_config(miniature, "broken.yaml")
    tokens = parse(miniature).data.tokens_id
    stored = finished.folder / "results/broken/tokens" / tokens
    shutil.copytree(finished.folder / "results/miniature/tokens" / tokens, stored)
    (stored / "train.bin").write_bytes(b"\0\1")
    ran = finished.snakemake("--cores=2", f"--configfile={configfile}", "--touch", "tokenize")
    ran = finished.snakemake("--cores=2", f"--configfile={configfile}")
    assert ran.returncode != 0
    assert ran.stdout.count("error: ") == 6
    assert ran.stdout.count("returned non-zero exit status 1") == 6
    assert "Traceback" not in ran.stdout
    assert (stored / "manifest.json").exists()
