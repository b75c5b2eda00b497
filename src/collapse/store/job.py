"""What a job that measures a dataset is given."""

from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from collapse.config.base import Section
from collapse.store.parts import Parts

S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class Job(Generic[S]):
    """One job of a dataset: all of it, or a slice of its seeds.

    The module of a dataset has a `Spec`, the table `VARIABLES` (name to long name, units and source), and a function
    `measure(job)`; `collapse.pipeline.datasets` names the module.
    """

    spec: S
    """Everything that determines the values, the seeds apart."""
    parts: Parts
    """Finished parts of this job: what it resumes from after a stop."""
    seeds: range = range(0)
    """Seeds to measure; empty where the dataset is not sliced over seeds."""
    tokens: Path | None = None
    """Folder of the token store; None where the dataset reads no text."""
