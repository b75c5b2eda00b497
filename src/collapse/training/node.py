"""The processes of a training on one machine, by torchrun; as a command, the task of a Slurm step on each of several.

python -m collapse.training.node TORCHRUN_OPTIONS -m collapse.training.worker OPTIONS
"""

import logging
import sys
from collections.abc import Sequence

SHUTDOWN_SECONDS = 600
"""For which processes that were asked to stop may finish their step and save a checkpoint."""


class FailedError(Exception):
    """A process failed; what was wrong it has said itself."""


class StoppedError(Exception):
    """The processes were asked to stop, and did."""


def torchrun(options: Sequence[str]) -> None:
    """Run processes to their end.

    Args:
        options: torchrun's, the module to run, and its own.

    Raises:
        FailedError: where a process failed.
        StoppedError: where this one was asked to stop.
    """
    from torch.distributed import run
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    try:
        run.main([f"--shutdown-timeout={SHUTDOWN_SECONDS}", *options])
    except ChildFailedError:
        raise FailedError from None
    except SignalException:
        raise StoppedError from None


if __name__ == "__main__":
    try:
        torchrun(sys.argv[1:])
    except (FailedError, StoppedError):  # which of them it was, the launcher knows and says
        sys.exit(1)
