"""Failures that a user can fix, and how the command of a stage reports them."""

import errno
import os
import sys
from collections.abc import Callable

_ADVICE = {
    errno.ENOSPC: "the disk is full: free some space and start again; finished work is kept",
    errno.EDQUOT: "the disk quota is used up: free some space and start again; finished work is kept",
    errno.EROFS: "the file system is read-only: choose a folder on another one for the results",
    errno.EACCES: "permission denied: choose a folder that you may write to for the results",
}


class CollapseError(Exception):
    """An expected failure. Its message is one sentence: what is wrong, where, and what to do."""


def _sentence(error: OSError) -> str:
    where = f"{error.filename}: " if error.filename else ""
    advice = _ADVICE.get(error.errno or 0, error.strerror or str(error))
    return f"{where}{advice}"


def say(sentence: str) -> None:
    """Print one line on stderr.

    If nobody reads stderr any more, print nothing more: a scheduler that ends a job may first end the `tee` behind it,
    and the job must still be able to finish its work, such as saving a checkpoint.
    """
    try:
        print(sentence, file=sys.stderr, flush=True)
    except BrokenPipeError:
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (1, 2):
            os.dup2(nowhere, stream)
        os.close(nowhere)


def run_stage(main: Callable[[], None]) -> None:
    """Run the command of a stage. An expected failure becomes one line on stderr and exit status 1, not a traceback."""
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
        say("interrupted; finished work is kept")
        sys.exit(130)
