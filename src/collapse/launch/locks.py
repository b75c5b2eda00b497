"""One training of a run at a time, by file lock.

The operating system releases the lock when its holder ends, however it ends, also on file systems that machines share:
NFS 4 and Lustre notice after some seconds that a machine has died. NFS 3 does not, and a file system without flock has
lock files only, which stay: there the message says what to remove.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from collapse.errors import CollapseError

PATIENCE_SECONDS = 180.0
"""To wait in a Slurm job: the attempt before it may still be saving a checkpoint, or its machine may have died."""


@contextmanager
def only_one(lock_file: Path, patience: float = 0.0) -> Iterator[None]:
    """Within this context no other process holds a run's lock file.

    Args:
        lock_file: the file; made where there is none, and left there.
        patience: seconds to wait for another process to end.

    Raises:
        CollapseError: where another process holds it and keeps it.
    """
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        raise CollapseError(
            f"{lock_file}: another process is training this run: wait for it, or stop it first (if its machine has "
            "died, remove this file)"
        ) from None
    try:
        yield
    finally:
        lock.release()
