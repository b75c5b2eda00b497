"""Slurm jobs: the one that a training runs in, and the state of any job for Snakemake.

`python -m collapse.launch.slurm JOB_ID` prints running, success or failed.
"""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass

from collapse.errors import CollapseError

ANSWER_SECONDS = 30.0
"""Longest wait for squeue's answer."""
SUCCEEDED = "COMPLETED"
FAILED = {
    "BOOT_FAIL",
    "CANCELLED",
    "DEADLINE",
    "FAILED",
    "LAUNCH_FAILED",
    "NODE_FAIL",
    "OUT_OF_MEMORY",
    "PREEMPTED",
    "RECONFIG_FAIL",
    "REVOKED",
    "SPECIAL_EXIT",
    "TIMEOUT",
}
"""States of a job that has ended otherwise and that Slurm still remembers."""


@dataclass(frozen=True)
class Allocation:
    """What a training knows of its Slurm job."""

    job: str
    """Its id."""
    nodes: int | None
    """Number of its nodes; None if Slurm does not say."""
    end: float | None
    """When Slurm ends it, seconds since the epoch; None if that is never, or Slurm does not say."""

    def require(self, nodes: int) -> None:
        """Check that the job has enough nodes.

        Raises:
            CollapseError: if it has too few.
        """
        if self.nodes is not None and self.nodes < nodes:
            raise CollapseError(
                f"execution.nodes is {nodes}, but Slurm job {self.job} has {self.nodes}: ask Slurm for as many "
                f"(--nodes {nodes}), or lower execution.nodes"
            )


def seconds_of(text: str) -> float | None:
    """Seconds of a duration as Slurm writes it, [days-][[hours:]minutes:]seconds; None if it is no duration."""
    days, _, clock = text.rpartition("-")
    try:
        parts = [int(part) for part in clock.split(":")]
        whole = int(days or 0) * 86400
    except ValueError:
        return None
    return float(whole + sum(part * 60**power for power, part in enumerate(reversed(parts))))


def _squeue(job: str, fields: str) -> list[str] | None:
    """The fields that squeue prints of a job; empty if it gives no answer, None if it knows no such job."""
    command = ["squeue", "--noheader", "--states=all", f"--format={fields}", f"--jobs={job}"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
    except (OSError, subprocess.SubprocessError):
        return []
    if "Invalid job id" in asked.stdout + asked.stderr:
        return None
    return [] if asked.returncode else asked.stdout.split()


def state(job: str) -> str:
    """State of a job for Snakemake: running, success or failed; running if the queue gives no answer."""
    match _squeue(job, "%T"):
        case None:
            return "failed"
        case [name] if name in FAILED:
            return "failed"
        case [name] if name == SUCCEEDED:
            return "success"
        case _:
            return "running"


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def current_allocation(environment: Mapping[str, str] = os.environ) -> Allocation | None:
    """The Slurm job that this process runs in; None outside Slurm.

    Slurm's variables in the environment come first. squeue is asked in any case: Snakemake passes on the job's id only,
    and a shell with Slurm's variables, such as one in tmux, may outlive its job.
    """
    job = environment.get("SLURM_JOB_ID")
    asked = _squeue(job, "%D %L %T") if job else None
    if not job or asked is None:
        return None
    nodes, end = (_number(environment.get(f"SLURM_JOB_{name}")) for name in ("NUM_NODES", "END_TIME"))
    left = None
    if len(asked) == 3:
        if asked[2] in FAILED | {SUCCEEDED}:
            return None
        nodes = _number(asked[0]) if nodes is None else nodes
        left = seconds_of(asked[1])
    if end is None and left is not None:
        return Allocation(job, nodes, time.time() + left)
    return Allocation(job, nodes, None if end is None else float(end))


if __name__ == "__main__":
    print(state(*sys.argv[1:]))
