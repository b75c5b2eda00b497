"""The time that one start of a training has: when to save a checkpoint and stop before it is over."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from collapse.launch.job import TrainingJob

RECENT = 20
"""Number of latest steps of which the slowest counts."""
MARGIN = 1.5
"""Factor on the forecast."""
SPARE_SECONDS = 1.0
"""Time to exit."""
STATE_BYTES = 12
"""Bytes per parameter of a checkpoint: the parameter and AdamW's two moments, fp32."""
BYTES_PER_SECOND = 1e8
"""Assumed speed of saving the first checkpoint."""


@dataclass(frozen=True)
class Deadline:
    """When one start of a training must be over; by default never."""

    at: float = math.inf
    """Seconds since the epoch."""
    what: str = "the end of time"
    """Its name in the message to the user."""


def deadline_of(job: TrainingJob) -> Deadline:
    """The deadline of a start: its time limit, or the end of its Slurm job if that is sooner."""
    known = [Deadline()]
    if (limit := job.execution.time_limit) is not None:
        known.append(Deadline(job.began + limit, f"the time limit of {limit:g} s"))
    if job.job_end is not None:
        known.append(Deadline(job.job_end, "the end of the Slurm job"))
    return min(known, key=lambda one: one.at)


class Budget:
    """Forecasts whether there is time for another step and the checkpoint after it.

    Args:
        end: when the start must be over, on the clock.
        parameters: number of the model's parameters, to estimate the time of its first checkpoint.
        clock: returns seconds; by default since the epoch, on which the launcher and its processes agree.
    """

    def __init__(self, end: float, parameters: int, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._end = clock, end
        self._steps: deque[float] = deque(maxlen=RECENT)
        self._checkpoint = STATE_BYTES * parameters / BYTES_PER_SECOND

    @contextmanager
    def step(self) -> Iterator[None]:
        """A context that times a step."""
        before = self._clock()
        yield
        self._steps.append(self._clock() - before)

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """A context that times saving a checkpoint."""
        before = self._clock()
        yield
        self._checkpoint = self._clock() - before

    @property
    def is_short(self) -> bool:
        """Whether a checkpoint that is due now, the next step and the checkpoint after it may take too long."""
        forecast = MARGIN * (max(self._steps, default=0.0) + 2 * self._checkpoint) + SPARE_SECONDS
        return self._clock() + forecast > self._end
