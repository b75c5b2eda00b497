"""How the launcher watches over one process of a training: progress, signals and the deadline."""

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager

from collapse import errors
from collapse.launch.deadline import Budget, deadline_of
from collapse.launch.job import TrainingJob
from collapse.pipeline.cost import parameter_count
from collapse.progress import Progress
from collapse.training.checkpoint import Seal, newest
from collapse.training.overseer import Overseer


class Watch(Overseer):
    """Says how a training goes, and asks it to stop on a signal or before its deadline.

    Args:
        job: the training.
        speaks: whether this process says anything.
    """

    def __init__(self, job: TrainingJob, speaks: bool = True) -> None:
        self._job, self._speaks = job, speaks
        self._deadline = deadline_of(job)
        self._budget = Budget(self._deadline.at, parameter_count(job.spec.model))
        self._asked = threading.Event()
        self._frequency_loss = self._tsim = math.nan
        self._tokens = job.spec.training.sequences_per_step * job.spec.model.sequence_length
        self._progress: Progress | None = None

    def say(self, sentence: str) -> None:
        """Print a sentence on stderr."""
        if self._speaks:
            errors.say(sentence)

    def begin(self, step: int, frequency_loss: float) -> None:
        """Start the clock of the progress; a training that starts from step 0 names the checkpoints it ignores."""
        if step == 0:
            for sentence in ignored_checkpoints(self._job):
                self.say(sentence)
        spec, seconds, tokens = self._job.spec, self._job.execution.log_seconds, self._tokens
        total = spec.training.steps * tokens
        self._frequency_loss = frequency_loss
        self._progress = Progress(spec.run_id, "tokens", seconds, total=total, start=step * tokens)

    def progress(self, done: int, loss: float, tsim: float) -> None:
        """Print a line of progress if one is due."""
        self._tsim = self._tsim if math.isnan(tsim) else tsim
        if self._progress is None or not self._speaks:
            return
        note = (
            f"step {done}/{self._job.spec.training.steps}, loss {loss:.3f}, frequency loss {self._frequency_loss:.3f}"
        )
        note += "" if math.isnan(self._tsim) else f", tsim {self._tsim:.4f}"
        self._progress.update(done * self._tokens, note=note)

    def step(self) -> AbstractContextManager[None]:
        """Time a step."""
        return self._budget.step()

    def checkpoint(self) -> AbstractContextManager[None]:
        """Time saving a checkpoint."""
        return self._budget.checkpoint()

    def reasons(self) -> dict[str, bool]:
        """A signal, and a deadline that is near."""
        return {"asked to stop": self._asked.is_set(), f"{self._deadline.what} is near": self._budget.is_short}

    @contextmanager
    def listening(self) -> Iterator[None]:
        """A context in which SIGTERM, or SIGUSR1, which srun passes on, asks the training to stop."""
        numbers = (signal.SIGTERM, signal.SIGUSR1)
        before = {number: signal.signal(number, lambda *_: self._asked.set()) for number in numbers}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def ignored_checkpoints(job: TrainingJob) -> Iterator[str]:
    """A sentence for each other scratch folder of the run that holds checkpoints; scratch folders are named by code."""
    for folder in sorted(job.scratch.parent.glob(f"{job.spec.run_id}-*")):
        if folder == job.scratch or (path := newest(folder / "checkpoints")) is None:
            continue
        if (seal := Seal.read(path.with_suffix(".json"))) is not None:
            yield (
                f"{job.spec.run_id}: ignoring the checkpoint of step {seal.step} in {folder}: other code made it "
                f"(fingerprint {seal.identity.code}, now {job.code}), so the training starts from step 0"
            )
