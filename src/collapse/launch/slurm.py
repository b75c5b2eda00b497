"""The Slurm job that a training runs in, if any: its id, how many nodes it has, and when it ends."""

import os
import shutil
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass

from collapse.errors import CollapseError

ANSWER_SECONDS = 30.0
"""How long to wait for squeue's answer."""
OVER = {
    "COMPLETED",
    "CANCELLED",
    "FAILED",
    "TIMEOUT",
    "NODE_FAIL",
    "PREEMPTED",
    "BOOT_FAIL",
    "DEADLINE",
    "OUT_OF_MEMORY",
    "REVOKED",
    "LAUNCH_FAILED",
}
"""States of a job that has ended, and that Slurm still remembers."""


@dataclass(frozen=True)
class Allocation:
    """What a training knows of its Slurm job."""

    job: str
    """Its id."""
    nodes: int | None
    """Number of its nodes; None where Slurm does not say."""
    end: float | None
    """When Slurm ends it, seconds since the epoch; None where that is never, or Slurm does not say."""

    def require(self, nodes: int) -> None:
        """Check that there are nodes enough.

        Raises:
            CollapseError: where there are too few.
        """
        if self.nodes is not None and self.nodes < nodes:
            raise CollapseError(
                f"execution.nodes is {nodes}, but Slurm job {self.job} has {self.nodes}: ask Slurm for as many "
                f"(--nodes {nodes}), or lower execution.nodes"
            )


def seconds_of(text: str) -> float | None:
    """Seconds of a time as Slurm writes it, [days-][[hours:]minutes:]seconds; None where it is no time."""
    days, _, clock = text.rpartition("-")
    try:
        parts = [int(part) for part in clock.split(":")]
        whole = int(days or 0) * 86400
    except ValueError:
        return None
    return float(whole + sum(part * 60**power for power, part in enumerate(reversed(parts))))


def _ask(job: str) -> tuple[int | None, float | None] | None:
    """Nodes and seconds left of a job, by squeue; None where there is no such job any more."""
    if shutil.which("squeue") is None:
        return None, None
    command = ["squeue", "--noheader", "--jobs", job, "--states", "all", "--format", "%D %L %T"]
    try:
        asked = subprocess.run(command, capture_output=True, text=True, timeout=ANSWER_SECONDS, check=False)
        if "Invalid job id" in asked.stderr:
            return None
        asked.check_returncode()
        nodes, left, state = asked.stdout.split()
        return None if state in OVER else (int(nodes), seconds_of(left))
    except (OSError, subprocess.SubprocessError, ValueError):
        return None, None


def _number(text: str | None) -> int | None:
    return int(text) if text is not None and text.isdecimal() else None


def current_allocation(environment: Mapping[str, str] = os.environ) -> Allocation | None:
    """The Slurm job that this process runs in; None outside Slurm.

    What Slurm has put into the environment is taken, and squeue asked for the rest: Snakemake's jobs have the id only.
    It is asked in any case, for a shell, as one in tmux, may outlive the job that it has the variables of.
    """
    job = environment.get("SLURM_JOB_ID")
    asked = _ask(job) if job else None
    if not job or asked is None:
        return None
    nodes = _number(environment.get("SLURM_JOB_NUM_NODES"))
    end = _number(environment.get("SLURM_JOB_END_TIME"))
    asked_nodes, left = asked
    nodes = asked_nodes if nodes is None else nodes
    if end is None and left is not None:
        return Allocation(job, nodes, time.time() + left)
    return Allocation(job, nodes, None if end is None else float(end))
