"""The training command: it locks the run, leases its GPUs for as long as they are used, and publishes what was trained.

python -m collapse.launch --spec RUNSPEC --execution EXECUTION --code FINGERPRINT --tokens DIR --scratch DIR --out DIR
"""

import os
import shutil
from argparse import Namespace
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path

from collapse.config.training import ExecutionConfig
from collapse.errors import CollapseError, run_stage
from collapse.launch.launcher import start
from collapse.launch.leases import lease, visible_gpus
from collapse.launch.locks import PATIENCE_SECONDS, only_one
from collapse.launch.progress import Progress
from collapse.launch.slurm import current_allocation
from collapse.launch.worker import arguments, parse_specs
from collapse.pipeline.paths import FINISHED
from collapse.store.manifest import damages
from collapse.store.publish import COMPLETED, deliver
from collapse.store.read import read_manifest
from collapse.training.engine import choose_device


def crowded(execution: ExecutionConfig) -> str | None:
    """A sentence where a training has more threads than it has cores, which is allowed and slow."""
    cores = len(os.sched_getaffinity(0))
    if execution.processes_per_node * execution.threads <= cores:
        return None
    return (
        f"{execution.processes_per_node} process(es) of {execution.threads} thread(s) share {cores} core(s) and slow "
        "each other down: execution.processes times execution.threads should be no more than that"
    )


def named(held: Sequence[str], execution: ExecutionConfig) -> Sequence[str] | None:
    """Ids of the GPUs that a training may use on each of its nodes; None for all that a node shows.

    They are held on the first of its nodes, where every training of an allocation starts, for all: other nodes call
    theirs by the same numbers. Where it takes all of them nothing is said, so there even that does not matter.
    """
    return None if execution.nodes > 1 and len(held) == len(visible_gpus()) else held


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
    job = current_allocation()
    if job is None:
        os.environ.pop("SLURM_JOB_ID", None)  # of a job that is over, whose shell is still in use
    else:
        job.require(execution.nodes)
        options.job_end = job.end
    options.scratch.mkdir(parents=True, exist_ok=True)
    lock_file = options.scratch.with_name(options.scratch.name + ".lock")
    with only_one(lock_file, 0 if job is None else PATIENCE_SECONDS):
        finished = options.scratch / FINISHED
        if _is_whole(finished, options.code):
            Progress.say(f"{spec.run_id}: trained to its end by an earlier start; publishing what it left")
        else:
            with lease(execution.processes_per_node) if device.kind == "cuda" else nullcontext() as held:
                start(options, execution, None if held is None else named(held, execution), job)
        deliver(finished, options.out)
        if read_manifest(finished)["ended"] == COMPLETED:  # else the last good checkpoint stays
            for path in options.scratch.iterdir():
                if path.is_dir() and path != finished:
                    shutil.rmtree(path, ignore_errors=True)
                elif path != finished:
                    path.unlink(missing_ok=True)


if __name__ == "__main__":
    run_stage(lambda: launch(arguments().parse_args()))
