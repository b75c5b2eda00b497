"""What the corpus commands share: specs given as JSON, and a line of progress now and then."""

import sys
import time
from typing import TypeVar

from pydantic import TypeAdapter, ValidationError
from pydantic_core import from_json

from collapse.config.base import describe
from collapse.errors import CollapseError

T = TypeVar("T")


def parse_spec(schema: TypeAdapter[T], text: str) -> T:
    """The validated spec that a command was given as JSON.

    Raises:
        CollapseError: where it is not JSON or does not fit the schema; all problems are named.
    """
    try:
        raw = from_json(text)
        return schema.validate_python(raw)
    except ValidationError as error:
        raise CollapseError("--spec: " + "; ".join(describe(error, raw))) from None
    except ValueError as error:
        raise CollapseError(f"--spec: should be JSON: {error} (got {text[:80]!r})") from None


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
        line = f"{self.activity}: {done:,} {self.unit}, {done / elapsed:,.0f}/s"
        if fraction:
            line += f", {fraction:.0%}, about {elapsed * (1 - fraction) / fraction:,.0f} s left"
        print(line, file=sys.stderr, flush=True)
