"""Progress of a training: a line every few seconds."""

import time

import numpy as np
from numpy.typing import NDArray

from collapse.errors import say


def _clock(seconds: float) -> str:
    minutes, second = divmod(round(seconds), 60)
    hour, minute = divmod(minutes, 60)
    return f"{hour}:{minute:02d}:{second:02d}" if hour else f"{minute}:{second:02d}"


class Progress:
    """Says where a run is, at most every few seconds, with the speed since the start and the time left.

    Args:
        name: the run.
        start: step it starts from.
        steps: steps it is to have.
        tokens_per_step: tokens in a step.
        floor: frequency loss of the run's own scope, nats: where a collapsed run ends.
        seconds: least time between two lines.
        speaks: whether this process says anything.
    """

    def __init__(
        self, name: str, start: int, steps: int, tokens_per_step: int, floor: float, seconds: float, speaks: bool
    ) -> None:
        self.name, self.start, self.steps, self.tokens_per_step, self.floor = name, start, steps, tokens_per_step, floor
        self.seconds, self.speaks = seconds, speaks
        self._tsim = ""
        self.began = self.last = time.monotonic()

    @staticmethod
    def say(sentence: str) -> None:
        """One line on stderr."""
        say(sentence)

    def update(self, done: int, loss: float, tsim: NDArray[np.float64]) -> None:
        """Say where the run is after `done` steps, if it is time to, or the end.

        Args:
            done: steps made.
            loss: that of the last one.
            tsim: last-layer token similarity of the latest steps, NaN where it was not recorded.
        """
        recorded = tsim[np.isfinite(tsim)]
        if recorded.size:
            self._tsim = f"tsim {recorded[-1]:.4f}  "
        now = time.monotonic()
        if not self.speaks or (now - self.last < self.seconds and done < self.steps):
            return
        self.last = now
        pace = (now - self.began) / max(done - self.start, 1)
        self.say(
            f"{self.name}  step {done}/{self.steps}  loss {loss:.3f}  frequency loss {self.floor:.3f}  {self._tsim}"
            f"{self.tokens_per_step / max(pace, 1e-9):,.0f} tokens/s  ETA {_clock(pace * (self.steps - done))}"
        )
