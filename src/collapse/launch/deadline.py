"""The wall-clock budget of one start of a training: when to save a checkpoint and leave before it is over."""

import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

RECENT = 20
"""Steps among which the slowest is sought."""
MARGIN = 1.5
"""What is foreseen is taken this many times."""
SPARE_SECONDS = 1.0
"""To leave in."""
STATE_BYTES = 12
"""A parameter and AdamW's two moments, fp32."""
BYTES_A_SECOND = 1e8
"""At which a checkpoint is thought to be saved until one was."""


@dataclass(frozen=True)
class Deadline:
    """When one start of a training has to be over; never, if left out."""

    at: float = math.inf
    """Seconds since the epoch."""
    what: str = "the end of time"
    """What it is, for the message to the user."""


class Budget:
    """Foresees whether there is time for another step and the checkpoint behind it.

    Args:
        end: when the start has to be over, on the clock.
        parameters: number of the model's parameters, for a guess at what its first checkpoint takes.
        clock: gives seconds; `time.time` counts from where launchers and their processes agree.
    """

    def __init__(self, end: float, parameters: int, clock: Callable[[], float] = time.time) -> None:
        self._clock, self._end = clock, end
        self._steps: deque[float] = deque(maxlen=RECENT)
        self._checkpoint = STATE_BYTES * parameters / BYTES_A_SECOND

    @contextmanager
    def step(self) -> Iterator[None]:
        """Within this context a step is made."""
        before = self._clock()
        yield
        self._steps.append(self._clock() - before)

    @contextmanager
    def checkpoint(self) -> Iterator[None]:
        """Within this context a checkpoint is saved."""
        before = self._clock()
        yield
        self._checkpoint = self._clock() - before

    @property
    def is_short(self) -> bool:
        """Whether a checkpoint that is due now, the next step and the checkpoint behind it might take too long."""
        foreseen = MARGIN * (max(self._steps, default=0.0) + 2 * self._checkpoint) + SPARE_SECONDS
        return self._clock() + foreseen > self._end
