"""Progress of a stage: a line on stderr every few seconds."""

import time

from tqdm import tqdm

from collapse.errors import say

UNBOUNDED = "{desc}{n:,}{unit}{postfix}, {rate_noinv_fmt}"
BOUNDED = "{desc}{n:,}{unit}{postfix}, {percentage:.0f}%, {rate_noinv_fmt}, ETA {remaining}"


class Progress:
    """Says how much of an activity is done, how fast it proceeds, and how long the rest will take.

    Args:
        activity: what is done, such as "tokenizing", or which run is trained.
        unit: what is counted, such as "tokens".
        seconds: least time between two lines.
        total: units that there are; None if unknown, or known to `update` as a fraction.
        start: units that an earlier start has done, which count as done but not for the rate.
    """

    def __init__(
        self, activity: str, unit: str, seconds: float = 5.0, *, total: int | None = None, start: int = 0
    ) -> None:
        self.activity, self.unit, self.seconds, self.total, self.start = activity, unit, seconds, total, start
        self._began = self._last = time.monotonic()

    def update(self, done: int, fraction: float | None = None, note: str = "") -> None:
        """Say a line if one is due, or if all is done.

        Args:
            done: units done so far.
            fraction: share of the units since `start` that is done, in [0, 1]; None if unknown or if `total` is given.
            note: what else to say, such as the loss.
        """
        now = time.monotonic()
        if now - self._last < self.seconds and done != self.total:
            return
        self._last = now
        total = self.start + (done - self.start) / fraction if fraction else self.total or 0
        line = tqdm.format_meter(
            done, total, now - self._began, initial=self.start, prefix=f"{self.activity}: ", unit=f" {self.unit}",
            unit_scale=True, postfix=note or None, bar_format=BOUNDED if total else UNBOUNDED,
        )  # fmt: skip
        say(line)
