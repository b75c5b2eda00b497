"""Trainings in children of one process that has loaded everything already: started in a second, killed on demand.

Reads tasks from its standard input, one line of JSON each: `job`, a training job in JSON; `log`, a file for what the
training prints; and when to kill it, if at all. That is before the file operation number `strike` in `place`, a key of
`PLACES`; or `seconds` after its start; or when a new file in the folder `under` fits the pattern `sight`.

Answers each task with a line of JSON: `status`, the child's exit status, negative for a signal; `operations`, the
number of file operations in each of `PLACES`; and `seconds`, how long it ran.
"""

import json
import os
import signal
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

PLACES = {
    "flush": ("history.zarr",),
    "checkpoint": ("checkpoints",),
    "publication": ("metrics.zarr", "manifest.json"),
}
"""Parts of paths by activity; the first two also occur when the scratch folder is read and removed."""
OPERATIONS = {"open", "os.rename", "os.mkdir", "os.remove", "os.rmdir", "os.chmod", "os.scandir", "shutil.rmtree"}


class Watch:
    """Counts file operations by place, and kills this process before one of them."""

    def __init__(self, place: str | None, strike: int) -> None:
        self.counts = dict.fromkeys(PLACES, 0)
        self.place, self.strike = place, strike

    def __call__(self, event: str, arguments: tuple[Any, ...]) -> None:
        if event not in OPERATIONS:
            return
        paths = " ".join(argument for argument in arguments if isinstance(argument, str))
        for place, parts in PLACES.items():
            if any(part in paths for part in parts):
                self.counts[place] += 1
                if place == self.place and self.counts[place] == self.strike:
                    os.kill(os.getpid(), signal.SIGKILL)


def child(task: dict[str, Any], answer: int) -> None:
    from collapse.errors import run_stage
    from collapse.launch.command import train
    from collapse.launch.job import read_job

    log = os.open(task["log"], os.O_WRONLY | os.O_CREAT | os.O_APPEND)
    os.dup2(log, 1)
    os.dup2(log, 2)
    watch = Watch(task.get("place"), task.get("strike", 0))
    sys.addaudithook(watch)
    status = 0
    try:
        run_stage(lambda: train(read_job([task["job"]])))
    except SystemExit as leaving:
        status = leaving.code
    os.write(answer, json.dumps(watch.counts).encode())
    os._exit(status)


def attempt(task: dict[str, Any]) -> dict[str, Any]:
    reading, writing = os.pipe()
    started, seconds = time.monotonic(), task.get("seconds")

    def seen() -> set[Path]:
        with suppress(FileNotFoundError):  # a folder may be removed while it is read
            return set(Path(task["under"]).glob(task["sight"])) if "sight" in task else set()
        return set()

    before = seen()
    process = os.fork()
    if process == 0:
        child(task, writing)
    os.close(writing)
    while True:
        ended, status = os.waitpid(process, os.WNOHANG)
        if ended:
            break
        if (seconds and time.monotonic() - started > seconds) or seen() - before:
            os.kill(process, signal.SIGKILL)
            _, status = os.waitpid(process, 0)
            break
        time.sleep(0.0003)
    with os.fdopen(reading) as answer:
        counts = answer.read()
    return {
        "status": os.waitstatus_to_exitcode(status),
        "operations": json.loads(counts) if counts else {},
        "seconds": time.monotonic() - started,
    }


def main() -> None:
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what libraries print must not mix with the answers
    import deepspeed.runtime.zero.muon.muon_optimizer  # noqa: F401 - what is slow to import
    import torch._dynamo  # noqa: F401

    import collapse.launch.command  # noqa: F401

    for line in sys.stdin:
        answers.write(json.dumps(attempt(json.loads(line))) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
