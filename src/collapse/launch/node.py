"""The processes of a training on one machine, by torchrun; as a command, the task of a Slurm step on each of several.

python -m collapse.launch.node TORCHRUN_OPTIONS -m collapse.launch.worker OPTIONS
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from collapse.errors import say

SHUTDOWN_SECONDS = 600
"""For which processes that were asked to stop may finish their step and save a checkpoint."""


class FailedError(Exception):
    """A process failed; what was wrong has been said."""


class StoppedError(Exception):
    """The processes were asked to stop, and did."""


def killed(who: str, number: int) -> str:
    """The sentence that a process would say of itself, had the signal that ended it left it the time."""
    sentence = f"{who} was ended by {signal.Signals(number).name}"
    if number != signal.SIGKILL:
        return sentence
    return (
        f"{sentence}, as the operating system or Slurm does where memory runs out: lower execution.micro_batch_size, "
        "set execution.activation_checkpointing, or give it more (on a cluster --set-resources train:mem_mb=...)"
    )


def _stop_once(signum: int, frame: FrameType | None) -> None:
    """Torchrun's handler of signals, but for one of them: a second one would break off how the first is answered.

    Slurm sends SIGTERM to all of a job while the launcher hands its own on.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException

    for name in os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"].split(","):
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    received = signal.Signals(signum)
    raise SignalException(f"process {os.getpid()} got signal {received.name}", sigval=received)


def torchrun(options: Sequence[str]) -> None:
    """Run processes to their end.

    Args:
        options: torchrun's, the module to run, and its own.

    Raises:
        FailedError: where a process failed; if a signal ended it, that has been said.
        StoppedError: where this one was asked to stop.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    api._terminate_process_handler = _stop_once  # a private name: torch is pinned, and a test sends two signals
    try:
        run.main([f"--shutdown-timeout={SHUTDOWN_SECONDS}", *options])
    except ChildFailedError as error:
        for rank, failure in sorted(error.failures.items()):
            if failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM:  # which is torchrun's to the others
                say(killed(f"training process {rank}", -failure.exitcode))
        raise FailedError from None
    except api.SignalException:
        raise StoppedError from None


if __name__ == "__main__":
    try:
        torchrun(sys.argv[1:])
    except (FailedError, StoppedError):  # which of them it was, the launcher knows and says
        sys.exit(1)
