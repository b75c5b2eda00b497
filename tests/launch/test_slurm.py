import subprocess
import sys
import time
from pathlib import Path

import pytest

from collapse.errors import CollapseError
from collapse.launch.slurm import FAILED, Allocation, current_allocation, seconds_of, state


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("59", 59),
        ("7:00", 420),
        ("1:00:01", 3601),
        ("2-03:04:05", 2 * 86400 + 3 * 3600 + 4 * 60 + 5),
        ("UNLIMITED", None),
        ("NOT_SET", None),
        ("INVALID", None),
    ],
)
def test_times_as_slurm_writes_them(text: str, seconds: float | None) -> None:
    assert seconds_of(text) == seconds


@pytest.fixture
def squeue(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A shell script that takes the place of squeue."""
    command = tmp_path / "squeue"
    command.write_text("#!/bin/sh\nexit 1\n")
    command.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    return command


def test_outside_slurm_there_is_none(squeue: Path) -> None:
    assert current_allocation({}) is None


def test_what_slurm_has_put_into_the_environment_is_taken(squeue: Path) -> None:
    environment = {"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_END_TIME": "1800000000"}
    assert current_allocation(environment) == Allocation("12", 4, 1.8e9)


def test_squeue_is_asked_for_the_rest(squeue: Path) -> None:
    squeue.write_text('#!/bin/sh\n[ "$4" = --jobs=12 ] && echo 2 1-00:00:10 RUNNING\n')
    job = current_allocation({"SLURM_JOB_ID": "12"})
    assert job is not None and job.nodes == 2
    assert job.end == pytest.approx(time.time() + 86410, abs=60)
    assert current_allocation({"SLURM_JOB_ID": "12", "SLURM_JOB_END_TIME": "1800000000"}) == Allocation("12", 2, 1.8e9)
    squeue.write_text("#!/bin/sh\necho 2 UNLIMITED RUNNING\n")
    assert current_allocation({"SLURM_JOB_ID": "12"}) == Allocation("12", 2, None)


@pytest.mark.parametrize("answer", ["exit 1", "echo", "echo slurm_load_jobs error", "echo two words here"])
def test_without_an_answer_nothing_is_made_up(squeue: Path, answer: str) -> None:
    squeue.write_text(f"#!/bin/sh\n{answer}\n")
    assert current_allocation({"SLURM_JOB_ID": "12"}) == Allocation("12", None, None)
    squeue.unlink()
    assert current_allocation({"SLURM_JOB_ID": "12"}) == Allocation("12", None, None)


@pytest.mark.parametrize(
    "answer",
    [
        "echo slurm_load_jobs error: Invalid job id specified >&2; exit 1",
        "echo 2 0:00 COMPLETED",
        "echo 2 1:00 CANCELLED",
    ],
)
def test_a_job_that_is_over_is_none(squeue: Path, answer: str) -> None:
    """Its variables may still be in a shell, such as one in tmux."""
    squeue.write_text(f"#!/bin/sh\n{answer}\n")
    environment = {"SLURM_JOB_ID": "12", "SLURM_JOB_NUM_NODES": "4", "SLURM_JOB_END_TIME": "1800000000"}
    assert current_allocation(environment) is None


def test_too_few_nodes_are_refused() -> None:
    with pytest.raises(CollapseError, match=r"execution\.nodes is 4, but Slurm job 12 has 2: .*--nodes 4"):
        Allocation("12", 2, None).require(4)
    Allocation("12", 4, None).require(4)
    Allocation("12", None, None).require(4)


@pytest.mark.parametrize(
    ("answer", "wanted"),
    [
        ("echo COMPLETED", "success"),
        *((f"echo {name}", "failed") for name in sorted(FAILED)),
        ("echo slurm_load_jobs error: Invalid job id specified >&2; exit 1", "failed"),
        ("echo RUNNING", "running"),
        ("echo PENDING", "running"),
        ("echo slurm_load_jobs error: Unable to contact slurm controller >&2; exit 1", "running"),
        ("exit 1", "running"),
    ],
)
def test_the_state_of_a_job_for_snakemake(squeue: Path, answer: str, wanted: str) -> None:
    squeue.write_text(f"#!/bin/sh\n{answer}\n")
    assert state("12") == wanted


def test_a_queue_that_is_not_there_says_nothing_of_a_job(squeue: Path) -> None:
    squeue.unlink()
    assert state("12") == "running"


def test_asking_for_a_state_imports_nothing_heavy() -> None:
    """Snakemake asks for the state of every job every minute."""
    script = "import sys, collapse.launch.slurm; print(*{'torch', 'numpy', 'pydantic', 'deepspeed'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.split() == []
