"""The training command in a Slurm job, with a stand-in for srun; tests/cluster has the real one."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from filelock import FileLock, Timeout

from collapse.errors import CollapseError
from collapse.launch import command
from collapse.launch.leases import lease_folder, visible_gpus
from collapse.launch.slurm import Allocation
from collapse.training.device import Device

SRUN = (
    f"#!{sys.executable}"
    + """
import itertools, os, pathlib, signal, subprocess, sys
options = list(itertools.takewhile(lambda word: word.startswith("--"), sys.argv[1:]))
command = sys.argv[1 + len(options):]
told = {name: value for name, value in os.environ.items() if "SLURM" in name}
pathlib.Path(sys.argv[0]).with_suffix(".log").write_text(f"{options} {told}")
nodes = int(next(word for word in options if word.startswith("--nodes=")).partition("=")[2])
tasks = [subprocess.Popen(command) for _ in range(nodes)]
signal.signal(signal.SIGUSR1, lambda *_: [task.send_signal(signal.SIGUSR1) for task in tasks])
sys.exit(max(task.wait() != 0 for task in tasks))
"""
)
"""One task per node, all on this machine; writes down what it is told."""


@pytest.fixture
def job(tmp_path: Path) -> dict[str, str]:
    """Variables of a Slurm job of two nodes, both this machine."""
    bin = tmp_path / "bin"
    bin.mkdir()
    srun = bin / "srun"
    srun.write_text(SRUN)
    squeue = bin / "squeue"
    squeue.write_text("#!/bin/sh\necho 2 UNLIMITED RUNNING\n")
    for path in (srun, squeue):
        path.chmod(0o755)
    end = str(int(time.time()) + 10**6)
    named = {"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "2", "SLURM_JOB_END_TIME": end, "SLURM_NTASKS": "7"}
    return named | {"PATH": f"{bin}:{os.environ['PATH']}"}


def run(lab: Any, folder: Path, environment: dict[str, str], **execution: Any) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        lab.command(lab.spec(), lab.execution(**execution), folder), env=lab.environment | environment,
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def test_two_nodes_meet_without_a_port_of_their_own(lab: Any, tmp_path: Path, job: dict[str, str]) -> None:
    done = run(lab, tmp_path, job, processes=2, nodes=2, micro_batch_size=4)
    assert done.returncode == 0, done.stderr
    assert (tmp_path / "run/manifest.json").exists()
    words = (tmp_path / "bin/srun.log").read_text()
    assert "'--nodes=2'" in words and "'--ntasks-per-node=1'" in words
    assert "'SLURM_JOB_ID': '12'" in words and "NTASKS'" not in words
    assert [path.name for path in (tmp_path / "scratch/run").iterdir()] == ["finished"]


def test_the_end_of_the_job_is_a_time_limit(lab: Any, tmp_path: Path, job: dict[str, str]) -> None:
    soon = {"SLURM_JOB_END_TIME": str(int(time.time()))}
    left = run(lab, tmp_path, job | soon)
    assert left.returncode == 1 and "Traceback" not in left.stderr
    assert "the end of the Slurm job is near; a checkpoint is saved" in left.stderr
    assert left.stderr.splitlines()[-1] == "error: the training did not finish; see the message above"
    assert (tmp_path / "scratch/run/checkpoints/step-00000001.json").exists()


def test_sigterm_is_passed_on(lab: Any, tmp_path: Path, job: dict[str, str]) -> None:
    execution = lab.execution(flush_every=1, checkpoint_every=999)
    words = lab.command(lab.spec(steps=400, horizon=400), execution, tmp_path)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=lab.environment | job) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if "step 5/" in line:
                process.send_signal(signal.SIGTERM)
        process.wait(60)
    assert process.returncode == 1, said
    assert said[-1] == (
        "error: asked to stop; the training process saved a checkpoint if it could, and the same command resumes from "
        "it\n"
    )
    assert len(list(tmp_path.glob("scratch/run/checkpoints/*.json"))) == 1


def test_a_killed_step_gets_a_message_of_its_own(lab: Any, tmp_path: Path, job: dict[str, str]) -> None:
    (tmp_path / "bin/srun").write_text("#!/bin/sh\nexit 137\n")
    done = run(lab, tmp_path, job)
    assert done.returncode == 1
    assert "error: a training process was ended by SIGKILL, as happens" in done.stderr.splitlines()[-1]


def test_a_killed_process_gets_a_message(lab: Any, tmp_path: Path) -> None:
    execution = lab.execution(processes=2, micro_batch_size=4, flush_every=1)
    words = lab.command(lab.spec(steps=4000, horizon=4000), execution, tmp_path)
    with subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=lab.environment) as process:
        said = []
        for line in process.stderr or ():
            said.append(line)
            if "step 5/" in line:
                for child in psutil.Process(process.pid).children(recursive=True):
                    if child.environ().get("RANK") == "1":
                        child.kill()
        process.wait(60)
    assert process.returncode == 1
    assert any(line.startswith("training process 1 was ended by SIGKILL") for line in said), said
    assert said[-1] == "error: one of the 2 training processes failed; see the message above\n"
    assert not any("Traceback" in line for line in said), said


def test_a_job_that_is_over_is_no_job(lab: Any, tmp_path: Path, job: dict[str, str]) -> None:
    (tmp_path / "bin/squeue").write_text(
        "#!/bin/sh\necho slurm_load_jobs error: Invalid job id specified >&2\nexit 1\n"
    )
    done = run(lab, tmp_path, job)
    assert done.returncode == 0, done.stderr
    assert not (tmp_path / "bin/srun.log").exists()


@pytest.mark.parametrize(
    ("processes", "nodes", "held", "told"),
    [(4, 2, {"0", "1"}, None), (2, 2, {"0"}, ["0"]), (2, 1, {"0", "1"}, ["0", "1"]), (1, 1, {"0"}, ["0"])],
)
def test_gpus_are_leased_on_the_first_node_for_all(
    lab: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, processes: int, nodes: int, held: set[str], told: Any
) -> None:
    found: dict[str, Any] = {}

    def start(job: Any, gpus: Any, allocation: Any) -> None:
        found["told"] = gpus
        locks = {gpu: FileLock(lease_folder() / f"{gpu}.lock") for gpu in visible_gpus()}
        found["held"] = {gpu for gpu, lock in locks.items() if not _free(lock)}
        raise CollapseError("enough")

    monkeypatch.setattr("collapse.launch.leases.SHARED", tmp_path)
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "0,1")
    monkeypatch.setattr(command, "choose_device", lambda *_: Device("cuda", "bf16"))
    monkeypatch.setattr(command, "current_allocation", lambda: Allocation("12", 2, None))
    monkeypatch.setattr(command, "start", start)
    execution = lab.execution(processes=processes, nodes=nodes, micro_batch_size=1)
    with pytest.raises(CollapseError, match="enough"):
        command.train(lab.job(lab.spec(), execution, tmp_path))
    assert found == {"told": told, "held": held}


def _free(lock: FileLock) -> bool:
    try:
        with lock.acquire(timeout=0):
            return True
    except Timeout:
        return False


def test_several_nodes_want_a_job_that_has_them(lab: Any, tmp_path: Path, job: dict[str, str]) -> None:
    outside = run(lab, tmp_path, {"SLURM_JOB_ID": ""}, processes=2, nodes=2, micro_batch_size=4)
    assert outside.returncode == 1
    assert "execution.nodes is 2, and this is no Slurm job with srun" in outside.stderr
    small = run(lab, tmp_path, job | {"SLURM_JOB_NUM_NODES": "1"}, processes=2, nodes=2, micro_batch_size=4)
    assert small.returncode == 1
    assert "execution.nodes is 2, but Slurm job 12 has 1: ask Slurm" in small.stderr
