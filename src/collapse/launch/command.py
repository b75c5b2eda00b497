"""The training command: it locks the run, leases GPUs while the run uses them, and delivers what was trained."""

import os
import shutil
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from collapse.config.execution import ExecutionConfig
from collapse.errors import CollapseError, say
from collapse.launch.job import TrainingJob
from collapse.launch.launcher import start
from collapse.launch.leases import lease, visible_gpus
from collapse.launch.locks import PATIENCE_SECONDS, only_one
from collapse.launch.slurm import current_allocation
from collapse.pipeline.paths import FINISHED
from collapse.store.manifest import damages
from collapse.store.publish import COMPLETED, deliver
from collapse.store.read import run_manifest
from collapse.training.device import choose_device


def train(job: TrainingJob) -> None:
    """Train a run or resume it, deliver it, and clear its scratch folder of all but the finished run.

    A run that this code has delivered whole is left as it is.

    The finished run stays in the scratch folder, hard-linked and so at no cost, until the whole workflow has succeeded:
    if Snakemake is killed while the training runs to its end, it deletes the outputs of that job at the next start.

    Raises:
        CollapseError: for every foreseeable failure, or if another process is training this run.
    """
    run_id, execution = job.spec.run_id, job.execution
    device = choose_device(job.spec.training, execution)
    if device.kind == "cpu" and (warning := crowded(execution)):
        say(f"{run_id}: {warning}")
    allocation = current_allocation()
    if allocation is None:
        os.environ.pop("SLURM_JOB_ID", None)  # left in a shell that has outlived its job
    else:
        allocation.require(execution.nodes)
        job = job.model_copy(update={"job_end": allocation.end})
    job.scratch.mkdir(parents=True, exist_ok=True)
    lock_file = job.scratch.with_name(job.scratch.name + ".lock")
    with only_one(lock_file, 0 if allocation is None else PATIENCE_SECONDS):
        if _is_whole(job.out, job.code):
            say(f"{run_id}: already trained to its end; delete {job.out} to train it again")
            return
        finished = job.scratch / FINISHED
        if _is_whole(finished, job.code):
            say(f"{run_id}: an earlier start trained this run to its end; delivering what it left")
        else:
            with lease(execution.processes_per_node) if device.kind == "cuda" else nullcontext() as held:
                start(job, None if held is None else named(held, execution), allocation)
        deliver(finished, job.out)
        if run_manifest(finished)["ended"] == COMPLETED:  # else the last good checkpoint stays
            _clear(job.scratch, finished)


def crowded(execution: ExecutionConfig) -> str | None:
    """A warning if a training has more threads than it has cores, which is allowed but slow; else None."""
    cores = len(os.sched_getaffinity(0))
    if execution.processes_per_node * execution.threads <= cores:
        return None
    return (
        f"{execution.processes_per_node} process(es) of {execution.threads} thread(s) share {cores} core(s) and slow "
        "each other down: lower execution.processes or execution.threads until their product is at most that"
    )


def named(held: Sequence[str], execution: ExecutionConfig) -> Sequence[str] | None:
    """Ids of the GPUs that a training may use on each of its nodes; None for all GPUs of each node.

    The leases are held on the first node of an allocation, where each of its trainings starts, and count for all nodes:
    the other nodes number their GPUs alike. A training that takes all GPUs names none, so numbering does not matter.
    """
    return None if execution.nodes > 1 and len(held) == len(visible_gpus()) else held


def _is_whole(finished: Path, code: str) -> bool:
    """Whether a folder holds a whole run that this code has published."""
    try:
        manifest = run_manifest(finished)
    except CollapseError:
        return False
    return manifest.get("code") == code and not damages(finished / "metrics.zarr", manifest)


def _clear(scratch: Path, finished: Path) -> None:
    """Remove everything from a scratch folder except the finished run."""
    for path in scratch.iterdir():
        if path.is_dir() and path != finished:
            shutil.rmtree(path, ignore_errors=True)
        elif path != finished:
            path.unlink(missing_ok=True)
