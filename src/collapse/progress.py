"""Progress of a stage: a line now and then."""

import sys
import time


class Progress:
    """One line on stderr every few seconds: how much is done, how fast, how long to go."""

    def __init__(self, activity: str, unit: str, seconds: float = 5.0) -> None:
        self.activity = activity
        self.unit = unit
        self.seconds = seconds
        self._start = self._last = time.monotonic()

    def update(self, done: int, fraction: float | None) -> None:
        """Report if a line is due.

        Args:
            done: units done so far.
            fraction: share of the work that is done, in [0, 1]; None where the total is unknown.
        """
        now = time.monotonic()
        if now - self._last < self.seconds:
            return
        self._last = now
        elapsed = now - self._start
        rate = done / elapsed
        line = f"{self.activity}: {done:,} {self.unit}, " + (f"{rate:,.0f}/s" if rate >= 10 else f"{rate:.2g}/s")
        if fraction:
            line += f", {fraction:.0%}, about {elapsed * (1 - fraction) / fraction:,.0f} s left"
        print(line, file=sys.stderr, flush=True)
