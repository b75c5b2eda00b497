"""A training over two nodes is that of one process, and resumes after every way in which Slurm may end it."""

import json
import os
import re
import runpy
import shlex
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from collapse.store.read import load_run

pytestmark = pytest.mark.slurm

TRAINING = runpy.run_path(str(Path(__file__).parents[1] / "lab.py"))
STEPS = 60
NEVER = 10**6
QUIET = {"PYTHONWARNINGS": "ignore", "GIT_DIR": os.devnull}


@pytest.fixture(scope="module")
def lab(byte_tokens: Path) -> Any:
    return TRAINING["Lab"](byte_tokens)


@pytest.fixture(scope="module")
def alone(lab: Any, tmp_path_factory: pytest.TempPathFactory) -> xr.Dataset:
    """The run, trained by one process, without Slurm."""
    folder = tmp_path_factory.mktemp("alone")
    done = lab.run(lab.spec(steps=STEPS, horizon=STEPS), lab.execution(), folder)
    assert done.returncode == 0, done.stderr
    return load_run(folder / "run")


def submit(cluster: Any, lab: Any, folder: Path) -> tuple[int, Path]:
    """Submit the run to two nodes, one process each, without regular checkpoints; returns the job and its log."""
    execution = lab.execution(processes=2, nodes=2, micro_batch_size=1, flush_every=1, checkpoint_every=NEVER)
    command = lab.command(lab.spec(steps=STEPS, horizon=STEPS), execution, folder)
    log = folder / "job.log"
    log.unlink(missing_ok=True)
    options = ["--nodes=2", "--ntasks-per-node=1", "--time=5", f"--output={log}", "--open-mode=append"]
    return cluster.submit(f"exec {shlex.join(command)}", *options, environment=QUIET), log


def digest(folder: Path) -> str:
    return str(json.loads((folder / "run/manifest.json").read_text())["digest"])


def close(run: xr.Dataset, wanted: xr.Dataset) -> None:
    """Within the rounding that another number of processes brings."""
    for name in ("loss", "grad_norm", "tsim_x", "param_grad", "alpha", "validation_loss"):
        np.testing.assert_allclose(run[name], wanted[name], rtol=2e-3, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(run["loss"], wanted["loss"], rtol=1e-5)


def await_step(cluster: Any, job: int, log: Path) -> None:
    """Wait until a job says that it has made some steps of its own."""
    deadline = time.monotonic() + 120
    while not (log.exists() and log.read_text().count(", step ") >= 3):
        assert time.monotonic() < deadline and job in cluster.jobs(), log.read_text() if log.exists() else "no log"
        time.sleep(0.05)


def newest_checkpoint(folder: Path) -> int:
    return max(int(seal.stem.removeprefix("step-")) for seal in folder.glob("scratch/run/checkpoints/step-*.json"))


@pytest.fixture(scope="module")
def undisturbed(cluster: Any, lab: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("undisturbed")
    job, log = submit(cluster, lab, folder)
    assert cluster.wait(job) == "COMPLETED", log.read_text()
    return folder


def test_two_nodes_train_what_one_process_trains(undisturbed: Path, alone: xr.Dataset) -> None:
    run = load_run(undisturbed / "run")
    close(run, alone)
    origin = json.loads(run.attrs["provenance"])
    assert (origin["processes"], origin["nodes"]) == (2, 2)
    log = (undisturbed / "job.log").read_text()
    assert " on 2 x " in log and f"step {STEPS}/{STEPS}" in log


def test_a_stopped_job_leaves_a_checkpoint_and_the_next_resumes(
    cluster: Any, lab: Any, tmp_path: Path, undisturbed: Path, alone: xr.Dataset
) -> None:
    """Stopped are first the launcher alone, as by `kill`, and then all of the job."""
    step = 0
    for way, state in ((("--batch", "--signal=TERM"), "FAILED"), ((), "CANCELLED")):
        job, log = submit(cluster, lab, tmp_path)
        await_step(cluster, job, log)
        cluster.run("scancel", *way, str(job))
        assert cluster.wait(job) == state
        said = log.read_text()
        assert "asked to stop; a checkpoint is saved" in said and "Traceback" not in said, said
        assert not (tmp_path / "run").exists()
        assert step == 0 or f"resuming from the checkpoint of step {step}\n" in said
        before, step = step, newest_checkpoint(tmp_path)
        assert before < step < STEPS
    job, log = submit(cluster, lab, tmp_path)
    assert cluster.wait(job) == "COMPLETED", log.read_text()
    assert f"resuming from the checkpoint of step {step}\n" in log.read_text()
    assert digest(tmp_path) == digest(undisturbed)
    close(load_run(tmp_path / "run"), alone)


def test_a_job_knows_its_nodes_and_its_end(cluster: Any, tmp_path: Path) -> None:
    """With all of Slurm's variables, and with what Snakemake leaves of them."""
    log = tmp_path / "job.log"
    ask = f"{shlex.quote(sys.executable)} -c 'from collapse.launch.slurm import *; print(current_allocation())'"
    bare = 'env -i PATH="$PATH" SLURM_CONF="$SLURM_CONF" SLURM_JOB_ID="$SLURM_JOB_ID"'
    job = cluster.submit(f"{ask}\n{bare} {ask}", "--nodes=2", "--time=7", f"--output={log}")
    assert cluster.wait(job) == "COMPLETED", log.read_text()
    end = time.mktime(time.strptime(cluster.job(job)["StartTime"], "%Y-%m-%dT%H:%M:%S")) + 7 * 60
    for line in log.read_text().splitlines():
        told = re.fullmatch(rf"Allocation\(job='{job}', nodes=2, end=([\d.]+)\)", line)
        assert told is not None, line
        assert abs(float(told[1]) - end) < 60


def test_a_job_that_is_over_is_none_any_more(cluster: Any, tmp_path: Path) -> None:
    job = cluster.submit("true", "--nodes=1", f"--output={tmp_path / 'job.log'}")
    assert cluster.wait(job) == "COMPLETED"
    ask = "from collapse.launch.slurm import *; print(current_allocation())"
    for number in (job, 987654):  # Slurm remembers the one, and knows nothing of the other
        asked = subprocess.run(
            [sys.executable, "-c", ask], env=cluster.environment | {"SLURM_JOB_ID": str(number)},
            capture_output=True, text=True, timeout=60, check=True,
        )  # fmt: skip
        assert asked.stdout == "None\n"
