"""Failures that a user can do something about, and how a stage's command reports them."""

import errno
import os
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


def say(sentence: str) -> None:
    """One line on stderr.

    Where nobody reads it any more, as `tee` may not when a scheduler ends a job, nothing more is printed: what a job
    still has to do, such as saving a checkpoint, is not to fail of that.
    """
    try:
        print(sentence, file=sys.stderr, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)


def run_stage(main: Callable[[], None]) -> None:
    """Run a stage's command; a foreseeable failure becomes one line on stderr and exit status 1, never a traceback."""
    try:
        main()
    except CollapseError as error:
        say(f"error: {error}")
        sys.exit(1)
    except OSError as error:
        if error.errno is None:
            raise
        say(f"error: {_sentence(error)}")
        sys.exit(1)
    except KeyboardInterrupt:
        say("interrupted; what was finished is kept")
        sys.exit(130)
