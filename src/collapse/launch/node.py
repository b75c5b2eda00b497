"""The processes of a training on one machine, started by torchrun; as a command, one task of a Slurm step.

python -m collapse.launch.node TORCHRUN_OPTIONS -m collapse.launch.worker JOB_JSON
"""

import logging
import os
import signal
import sys
from collections.abc import Sequence
from types import FrameType

from collapse.errors import say

SHUTDOWN_SECONDS = 600
"""Time that processes have to finish their step and save a checkpoint when they are asked to stop."""


class FailedError(Exception):
    """A process failed; a message has said why."""


class StoppedError(Exception):
    """The processes were asked to stop, and did."""


def killed(who: str, number: int) -> str:
    """The message about a process that a signal ended before it could print one itself."""
    sentence = f"{who} was ended by {signal.Signals(number).name}"
    if number != signal.SIGKILL:
        return sentence
    return (
        f"{sentence}, as happens when memory runs out: lower execution.micro_batch_size, set "
        "execution.activation_checkpointing, or give it more memory (on a cluster --set-resources train:mem_mb=...)"
    )


def _stop_once(signum: int, frame: FrameType | None) -> None:
    """torchrun's signal handler, for the first signal only: a second one would interrupt the answer to the first.

    Slurm sends SIGTERM to all processes of a job while the launcher passes its own on.
    """
    from torch.distributed.elastic.multiprocessing.api import SignalException

    for name in os.environ["TORCHELASTIC_SIGNALS_TO_HANDLE"].split(","):
        signal.signal(signal.Signals[name], signal.SIG_IGN)
    received = signal.Signals(signum)
    raise SignalException(f"process {os.getpid()} got signal {received.name}", sigval=received)


def torchrun(options: Sequence[str]) -> None:
    """Run processes to their end.

    Args:
        options: torchrun's options, the module to run, and its arguments.

    Raises:
        FailedError: if a process failed; a message has said why, even if a signal ended the process.
        StoppedError: if this process was asked to stop.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing import api
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    api._terminate_process_handler = _stop_once  # private, but torch is pinned and a test sends two signals
    try:
        run.main([f"--shutdown-timeout={SHUTDOWN_SECONDS}", *options])
    except ChildFailedError as error:
        for rank, failure in sorted(error.failures.items()):
            if (
                failure.exitcode < 0 and failure.exitcode != -signal.SIGTERM
            ):  # SIGTERM is what torchrun sends to the other processes
                say(killed(f"training process {rank}", -failure.exitcode))
        raise FailedError from None
    except api.SignalException:
        raise StoppedError from None


if __name__ == "__main__":
    try:
        torchrun(sys.argv[1:])
    except (FailedError, StoppedError):  # the launcher knows which one it was, and says so
        sys.exit(1)
