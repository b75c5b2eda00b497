"""The training command: one process in place, several through torchrun, each GPU leased for as long as it is used.

python -m collapse.training --spec RUNSPEC --execution EXECUTION --code FINGERPRINT --tokens DIR --scratch DIR --out DIR
"""

import logging
import os
import shutil
import sys
from argparse import Namespace
from contextlib import nullcontext

from filelock import FileLock, Timeout

from collapse.config.training import ExecutionConfig
from collapse.errors import CollapseError, run_stage
from collapse.leases import lease
from collapse.store.publish import COMPLETED
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


def launch(options: Namespace) -> None:
    """Train a run, and clear its scratch folder once it is completed and published.

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
    with lock, lease(execution.processes) if device.kind == "cuda" else nullcontext() as gpus:
        if gpus is not None:
            os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
        if execution.processes == 1:
            work(options)
        else:
            _torchrun(execution.processes, options.began)
        if read_manifest(options.out)["ended"] == COMPLETED:  # else the last good checkpoint stays
            shutil.rmtree(options.scratch, ignore_errors=True)


if __name__ == "__main__":
    run_stage(lambda: launch(arguments().parse_args()))
