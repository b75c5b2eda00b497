"""Leases of GPUs by file lock, so that concurrent trainings never share one.

Snakemake neither limits GPUs by itself nor tells a job which ones to use. A lease does both. It counts for every
process of a user on a machine, or in a Slurm job on that machine, whichever command started it. The operating system
releases a lock when its holder ends, however it ends, so there is nothing to clean up.
"""

import os
import socket
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from collapse.errors import CollapseError, say

SHARED = Path("/tmp")
"""Folder of the lock files if it exists: the same for every process on a machine."""


def visible_gpus() -> list[str]:
    """Ids of the GPUs that this process may use: those of CUDA_VISIBLE_DEVICES if it is set, else all present."""
    inherited = os.environ.get("CUDA_VISIBLE_DEVICES")
    if inherited is None:
        import torch

        return [str(index) for index in range(torch.cuda.device_count())]
    ids = [part.strip() for part in inherited.split(",")]
    valid = [gpu for gpu in ids if gpu and not gpu.startswith("-")]
    return list(dict.fromkeys(valid))


def lease_folder() -> Path:
    """Folder of the lock files: one per user, host and Slurm job, since each job may call its own first GPU "0".

    It is in /tmp whatever TMPDIR says, because TMPDIR may differ between processes that must see the same locks.
    """
    whose = [str(os.getuid()), socket.gethostname(), os.environ.get("SLURM_JOB_ID", "")]
    root = SHARED if SHARED.is_dir() else Path(tempfile.gettempdir())
    return root / "-".join(["collapse-gpus", *filter(None, whose)])


def _take(count: int, gpus: Sequence[str], folder: Path, held: ExitStack) -> list[str]:
    """Lock `count` GPUs, or none; never waits."""
    taken: list[str] = []
    with ExitStack() as attempt:
        for gpu in gpus:
            lock = FileLock(folder / f"{gpu.replace('/', '_')}.lock", timeout=0)
            try:
                attempt.enter_context(lock)
            except Timeout:
                continue
            taken.append(gpu)
            if len(taken) == count:
                held.push(attempt.pop_all())
                return taken
    return []


@contextmanager
def lease(
    count: int, gpus: Sequence[str] | None = None, folder: Path | None = None, poll_seconds: float = 1.0
) -> Iterator[list[str]]:
    """Hold GPUs during a `with` block; waits until enough of them are free.

    It takes all of them at once or none, so that two waiting trainings cannot block each other.

    Args:
        count: how many GPUs.
        gpus: ids to choose from; by default those that this process may use.
        folder: where the lock files are; by default one per user, host and Slurm job.
        poll_seconds: time between two attempts while waiting.

    Yields:
        The ids held. Put them into CUDA_VISIBLE_DEVICES of the processes that use them; the lease sets nothing.

    Raises:
        CollapseError: if there are fewer GPUs than `count`, so that waiting would be in vain.
    """
    gpus = visible_gpus() if gpus is None else gpus
    folder = lease_folder() if folder is None else folder
    if len(gpus) < count:
        raise CollapseError(
            f"execution asks for {count} GPU{'s' if count != 1 else ''} per training, and this machine offers "
            f"{len(gpus) or 'none'}: set execution.device to cpu or auto, lower execution.processes, or check "
            "CUDA_VISIBLE_DEVICES"
        )
    folder.mkdir(parents=True, exist_ok=True)
    with ExitStack() as held:
        waited = False
        while not (ids := _take(count, gpus, folder, held)):
            if not waited:
                say(f"waiting for {count} of {len(gpus)} GPUs: other trainings hold them")
            waited = True
            time.sleep(poll_seconds)
        yield ids
