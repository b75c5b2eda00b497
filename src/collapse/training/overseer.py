"""Who watches over a training: it is told how the training goes, and may ask it to stop."""

from contextlib import AbstractContextManager, nullcontext


class Overseer:
    """Whoever started a training. This one is silent and never asks it to stop.

    Every process of a training calls its own overseer at the same places; one of them should speak.
    """

    def say(self, sentence: str) -> None:
        """Take note of something a user should know."""

    def begin(self, step: int, frequency_loss: float) -> None:
        """The training starts.

        Args:
            step: updates that earlier starts have made; 0 for a new training.
            frequency_loss: frequency loss of the run's own scope, nats: where the loss of a collapsed run ends.
        """

    def progress(self, done: int, loss: float, tsim: float) -> None:
        """Recorded steps have reached the disk.

        Args:
            done: updates made.
            loss: loss of the latest step, nats.
            tsim: last-layer token similarity of the latest recorded step since the last call; NaN if there is none.
        """

    def step(self) -> AbstractContextManager[None]:
        """A context around every optimizer step."""
        return nullcontext()

    def checkpoint(self) -> AbstractContextManager[None]:
        """A context around saving every checkpoint."""
        return nullcontext()

    def reasons(self) -> dict[str, bool]:
        """Reasons to stop after the current step, and whether each holds in this process.

        All processes must name the same reasons in the same order. One that holds anywhere stops them all.
        """
        return {}
