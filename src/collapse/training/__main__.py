"""The training command: one process in place, several through torchrun, each GPU leased for as long as it is used.

python -m collapse.training --spec RUNSPEC --execution EXECUTION --code FINGERPRINT --tokens DIR --scratch DIR --out DIR
"""

import logging
import os
import shutil
import sys
from argparse import Namespace
from contextlib import nullcontext
from pathlib import Path

from filelock import FileLock, Timeout

from collapse.config.paths import FINISHED
from collapse.config.training import ExecutionConfig
from collapse.errors import CollapseError, run_stage
from collapse.leases import lease
from collapse.store.manifest import damages
from collapse.store.publish import COMPLETED, deliver
from collapse.store.read import read_manifest
from collapse.training.engine import choose_device
from collapse.training.progress import Progress
from collapse.training.worker import arguments, parse_specs, work


def _torchrun(processes: int, began: float) -> None:
    """The same command in several processes, with a free port of torchrun's choosing.

    Raises:
        CollapseError: where a process failed; what was wrong it has said itself.
    """
    from torch.distributed import run as torchrun
    from torch.distributed.elastic.multiprocessing.api import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError

    logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    command = ["--standalone", f"--nproc-per-node={processes}", "-m", "collapse.training.worker"]
    command += [*sys.argv[1:], "--began", str(began)]
    try:
        torchrun.main(command)
    except ChildFailedError:
        raise CollapseError(f"one of the {processes} training processes failed; its message is above") from None
    except SignalException:
        raise CollapseError(
            f"asked to stop; the {processes} training processes have saved a checkpoint if they could, and the same "
            "command goes on from it"
        ) from None


def crowded(execution: ExecutionConfig) -> str | None:
    """A sentence where a training has more threads than it has cores, which is allowed and slow."""
    cores = len(os.sched_getaffinity(0))
    if execution.processes * execution.threads <= cores:
        return None
    return (
        f"{execution.processes} process(es) of {execution.threads} thread(s) share {cores} core(s) and slow each other "
        "down: execution.processes times execution.threads should be no more than that"
    )


def _is_whole(finished: Path, code: str) -> bool:
    """Whether a folder holds a run that this code has published, all of it."""
    try:
        manifest = read_manifest(finished)
    except CollapseError:
        return False
    return manifest.get("code") == code and not damages(finished / "metrics.zarr", manifest)


def launch(options: Namespace) -> None:
    """Train a run, publish it, and clear its scratch folder of all but the finished run.

    That stays, linked and so at no cost, until the whole workflow has succeeded: Snakemake deletes the outputs of a job
    whose end it did not see, which may have been killed itself while the training went on to its end.

    Raises:
        CollapseError: for every foreseeable failure, or where another process is training this run.
    """
    spec, execution = parse_specs(options)
    device = choose_device(spec.training, execution)
    if device.kind == "cpu" and (warning := crowded(execution)):
        Progress.say(f"{spec.run_id}: {warning}")
    options.scratch.mkdir(parents=True, exist_ok=True)
    lock = FileLock(options.scratch.with_name(options.scratch.name + ".lock"))
    try:
        lock.acquire(timeout=0)
    except Timeout:
        raise CollapseError(
            f"{options.scratch}: another process is training this run: wait for it, or stop it first"
        ) from None
    with lock:
        finished = options.scratch / FINISHED
        if _is_whole(finished, options.code):
            Progress.say(f"{spec.run_id}: trained to its end by an earlier start; publishing what it left")
        else:
            with lease(execution.processes) if device.kind == "cuda" else nullcontext() as gpus:
                if gpus is not None:
                    os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
                if execution.processes == 1:
                    work(options)
                else:
                    _torchrun(execution.processes, options.began)
        deliver(finished, options.out)
        if read_manifest(finished)["ended"] == COMPLETED:  # else the last good checkpoint stays
            for path in options.scratch.iterdir():
                if path != finished:
                    shutil.rmtree(path, ignore_errors=True)


if __name__ == "__main__":
    run_stage(lambda: launch(arguments().parse_args()))
