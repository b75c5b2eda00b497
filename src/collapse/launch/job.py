"""What the training command and each of its processes are told."""

from collections.abc import Sequence
from pathlib import Path

import psutil
from pydantic import Field, ValidationError
from pydantic_core import from_json

from collapse.config.base import Section, describe
from collapse.config.execution import ExecutionConfig
from collapse.config.run import RunSpec
from collapse.errors import CollapseError


class TrainingJob(Section):
    """One start of a training."""

    spec: RunSpec
    """The run's whole spec."""
    execution: ExecutionConfig
    """How the run is executed."""
    code: str
    """Fingerprint of the training code."""
    tokens: Path
    """Folder of the token store."""
    scratch: Path
    """Folder of checkpoints and metric history."""
    out: Path
    """Folder of the finished run."""
    began: float = Field(default_factory=lambda: float(psutil.Process().create_time()))
    """When the command started, seconds since the epoch; by default the start of this process."""
    job_end: float | None = None
    """When Slurm ends the job that the training runs in, seconds since the epoch; None if never or unknown."""


def read_job(arguments: Sequence[str]) -> TrainingJob:
    """The job that a command was given as its only argument, in JSON.

    Raises:
        CollapseError: if there is another number of arguments, or it is no valid job; all problems are named.
    """
    if len(arguments) != 1:
        raise CollapseError(f"give the training job as one argument, in JSON (got {len(arguments)} arguments)")
    raw = None
    try:
        raw = from_json(arguments[0])
        return TrainingJob.model_validate(raw)
    except ValidationError as error:
        raise CollapseError("training job: " + "; ".join(describe(error, raw))) from None
    except ValueError as error:
        raise CollapseError(f"training job: should be JSON: {error} (got {arguments[0][:80]!r})") from None
