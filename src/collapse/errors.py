"""Failures that a user can do something about, and how a stage's command reports them."""

import errno
import sys
from collections.abc import Callable

_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and start again; what was finished is kept",
    errno.EDQUOT: "the disk quota is used up: free some space and start again; what was finished is kept",
    errno.EROFS: "the file system is read-only: results must be written to a folder that can be written to",
    errno.EACCES: "permission denied: results must be written to a folder that you may write to",
}


class CollapseError(Exception):
    """A foreseeable failure. Its message is one sentence: what was wrong, where, and what to do."""


def _sentence(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
    return f"{where}{advice}"


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage's command; a foreseeable failure becomes one line on stderr and exit status 1, never a traceback."""
    try:
        main()
    except CollapseError as error:
        print(f"error: {error}", file=sys.stderr, flush=True)
        sys.exit(1)
    except OSError as error:
        if error.errno is None:
            raise
        print(f"error: {_sentence(error)}", file=sys.stderr, flush=True)
        sys.exit(1)
    except KeyboardInterrupt:
        print("interrupted; what was finished is kept", file=sys.stderr, flush=True)
        sys.exit(130)
