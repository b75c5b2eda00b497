"""One training of a run at a time, by file lock.

The operating system releases the lock when its holder ends, however it ends. This also holds on file systems that
machines share: NFS 4 and Lustre notice after some seconds that a machine has died. NFS 3 does not, and without flock
the lock file itself is the lock and stays; for these cases the message says which file to remove.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from collapse.errors import CollapseError

PATIENCE_SECONDS = 180.0
"""Patience in a Slurm job: an earlier attempt may still be saving a checkpoint, or its machine may have died."""


@contextmanager
def only_one(lock_file: Path, patience: float = 0.0) -> Iterator[None]:
    """A context in which no other process holds a run's lock file.

    Args:
        lock_file: the file; created if missing, and left there.
        patience: seconds to wait for another process to end.

    Raises:
        CollapseError: if another process holds it and keeps it.
    """
    lock = FileLock(lock_file)
    try:
        lock.acquire(timeout=patience)
    except Timeout:
        raise CollapseError(
            f"{lock_file}: another process is training this run: wait for it, or stop it first (if its machine died, "
            "remove this file)"
        ) from None
    try:
        yield
    finally:
        lock.release()
