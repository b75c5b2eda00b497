"""Trainings whose jobs die, in every way in which a cluster lets them, end bit by bit as if nothing had been."""

import json
import re
import shutil
import signal
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import datetime
from pathlib import Path
from typing import Any

import psutil
import pytest
import yaml
from miniature import MINIATURE

from collapse.config.root import parse

pytestmark = pytest.mark.slurm

SPARE_SECONDS = 12
"""Of its minute, what a training is left with that was held up."""


def eventually(condition: Callable[[], Any], what: str, seconds: float = 150) -> Any:
    deadline = time.monotonic() + seconds
    while not (found := condition()):
        assert time.monotonic() < deadline, what
        time.sleep(0.1)
    return found


def config_of(miniature: dict[str, Any], name: str, runs: list[dict[str, Any]]) -> dict[str, Any]:
    changed = {"name": name, "grid": {"extra": runs}}
    changed["execution"] = miniature["execution"] | {"checkpoint_every": 20, "log_seconds": 1.0, "device": "cpu"}
    return miniature | changed


RUNS = [{"seed": seed, "steps": 400} for seed in (1, 2, 3)]


class Bench:
    """A project with a token store, some runs to train, and what is known of their jobs."""

    def __init__(self, finished: Any, cluster: Any, folder: Path, config: dict[str, Any]) -> None:
        self.project = type(finished)(Path(shutil.copytree(finished.folder, folder, ignore=self.left_out)))
        self.cluster = cluster
        self.configfile = self.project.write_config(config, f"{config['name']}.yaml")
        self.root = self.project.folder / "results" / config["name"]
        self.runs = list(parse(config).runs)
        shutil.copytree(self.project.folder / "results/miniature/tokens", self.root / "tokens")
        self.targets = [str(self.manifest(run).relative_to(self.project.folder)) for run in self.runs]

    @staticmethod
    def left_out(folder: str, names: list[str]) -> set[str]:
        """Of the finished project only code, text and tokens are taken."""
        kept = {"tokens"} if folder.endswith("results/miniature") else set(names) - {".snakemake", "__pycache__"}
        return set(names) - kept

    def manifest(self, run: str) -> Path:
        return self.root / "runs" / run / "manifest.json"

    def log(self, run: str) -> str:
        path = self.root / f"logs/train/{run}.log"
        return path.read_text() if path.exists() else ""

    def jobs(self, run: str) -> list[int]:
        """Slurm jobs of a run, in the order of their submission."""
        listed = self.cluster.run("squeue", "--states=all", "-h", "-o", "%A %k")
        return sorted(int(job) for job, comment in re.findall(r"^(\d+) (.*)$", listed, re.M) if run in comment)

    def checkpoints(self, run: str) -> list[Path]:
        return list(self.root.glob(f"scratch/{run}-*/checkpoints/*.json"))

    def signal(self, run: str, number: signal.Signals) -> None:
        """Send a signal to a run's training processes."""
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                command = " ".join(process.cmdline())
                trains = re.search(r"collapse(\.launch\S*| train) ", command) and run in command
                python = Path(process.exe()).name.startswith("python")
                if trains and python and Path(process.cwd()) == self.project.folder:
                    process.send_signal(number)

    def digest(self, run: str) -> str:
        return str(json.loads(self.manifest(run).read_text())["digest"])


@pytest.fixture(scope="module")
def begun(pipeline: Any, finished: Any, submitter: Any, cluster: Any, tmp_path_factory: Any) -> Any:
    """Three runs, submitted with a limit of a minute: one job is cancelled, a node is lost, and time runs out."""
    folder = tmp_path_factory.mktemp("disturbed") / "project"
    bench = Bench(finished, cluster, folder, config_of(MINIATURE, "disturbed", RUNS))
    cancelled, lost, late = bench.runs
    site = {"setup": ["export OMP_PROC_BIND=false"], "scratch": f"{folder}/node-$SLURM_JOB_ID"}
    (folder / "config/site.yaml").write_text(yaml.safe_dump(site))
    workflow = submitter.start(bench.project, bench.configfile, "--set-resources=train:runtime=1", *bench.targets)

    held: set[str] = set()

    def hold() -> bool:
        """Hold up whatever run has a checkpoint; tells whether all are held."""
        assert workflow.process.poll() is None, workflow.said
        for run in set(bench.runs) - held:
            if bench.checkpoints(run):
                bench.signal(run, signal.SIGSTOP)
                held.add(run)
        return len(held) == len(bench.runs)

    eventually(hold, "not every run saves a checkpoint")
    bench.signal(cancelled, signal.SIGCONT)
    cluster.run("scancel", str(bench.jobs(cancelled)[0]))
    nodes = {run: cluster.job(bench.jobs(run)[0])["NodeList"] for run in (lost, late)}
    cluster.fail_node(nodes[lost])
    cluster.mend_node(nodes[lost])
    if nodes[lost] == nodes[late]:
        (bench.root / f"logs/train/{late}.log").unlink()
        eventually(lambda: ", step " in bench.log(late), "the requeued run makes no step")
        bench.signal(late, signal.SIGSTOP)
    return bench, workflow


@pytest.fixture(scope="module")
def undisturbed(cluster: Any, finished: Any, disturbed: Any, tmp_path_factory: Any) -> dict[str, str]:
    """Digests of the runs, trained without Slurm and without a stop."""
    folder = tmp_path_factory.mktemp("undisturbed") / "project"
    bench = Bench(finished, cluster, folder, config_of(MINIATURE, "undisturbed", RUNS))
    ran = bench.project.snakemake("--cores=2", f"--configfile={bench.configfile}", *bench.targets)
    assert ran.returncode == 0, ran.stdout
    return {run: bench.digest(run) for run in bench.runs}


@pytest.fixture(scope="module")
def disturbed(begun: Any) -> Any:
    """The three runs, all at their ends."""
    bench, workflow = begun
    late = bench.runs[2]
    end = datetime.fromisoformat(bench.cluster.job(bench.jobs(late)[0])["EndTime"])
    time.sleep(max(0.0, (end - datetime.now()).total_seconds() - SPARE_SECONDS))
    bench.signal(late, signal.SIGCONT)
    assert workflow.wait(300) == 0, workflow.said
    return bench


def test_a_cancelled_training_is_submitted_again_and_resumes(disturbed: Any, undisturbed: Any, cluster: Any) -> None:
    run = disturbed.runs[0]
    first, *others = disturbed.jobs(run)
    assert cluster.state(first) == "CANCELLED"
    assert cluster.state(others[-1]) == "COMPLETED"
    assert "resuming from the checkpoint of step" in disturbed.log(run)
    assert disturbed.digest(run) == undisturbed[run]


def test_a_training_whose_node_is_lost_is_requeued_and_resumes(disturbed: Any, undisturbed: Any, cluster: Any) -> None:
    run = disturbed.runs[1]
    first = cluster.job(disturbed.jobs(run)[0])
    assert first["Restarts"] == "1"
    assert "resuming from the checkpoint of step" in disturbed.log(run)
    assert disturbed.digest(run) == undisturbed[run]


def test_a_training_leaves_before_its_time_is_over_and_resumes(disturbed: Any, undisturbed: Any, cluster: Any) -> None:
    run = disturbed.runs[2]
    first, *others = disturbed.jobs(run)
    assert cluster.state(first) in ("FAILED", "TIMEOUT")
    assert cluster.state(others[-1]) == "COMPLETED"
    assert "resuming from the checkpoint of step" in disturbed.log(run)
    assert disturbed.digest(run) == undisturbed[run]


def test_temporary_files_are_on_the_nodes_scratch(disturbed: Any) -> None:
    made = {int(path.name.removeprefix("node-")) for path in disturbed.project.folder.glob("node-*")}
    assert {job for run in disturbed.runs for job in disturbed.jobs(run)} <= made


def test_ctrl_c_cancels_its_jobs_and_the_next_start_resumes(
    finished: Any, submitter: Any, cluster: Any, miniature: Any, undisturbed: Any, tmp_path: Path
) -> None:
    """It resumes with the profile for other schedulers, so that this one is tried as well."""
    bench = Bench(finished, cluster, tmp_path / "project", config_of(miniature, "interrupted", RUNS[:1]))
    (run,) = bench.runs
    before = set(bench.jobs(run))
    workflow = submitter.start(bench.project, bench.configfile, *bench.targets)
    eventually(lambda: bench.checkpoints(run), "no checkpoint")
    workflow.process.send_signal(signal.SIGINT)
    assert workflow.wait(200) != 0
    (job,) = set(bench.jobs(run)) - before
    assert cluster.wait(job) == "CANCELLED"
    assert "a checkpoint is saved, and the same command resumes from it" in bench.log(run)
    again = submitter.start(bench.project, bench.configfile, *bench.targets, profile="cluster-generic")
    assert again.wait(200) == 0, again.said
    assert "Submitted job" in again.said
    assert "resuming from the checkpoint of step" in bench.log(run)
    assert bench.digest(run) == undisturbed[run]
