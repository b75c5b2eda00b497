"""One process of a training, alone or as one of several: `python -m collapse.launch.worker JOB_JSON`."""

import os
import re
import sys
from contextlib import ExitStack

import torch.distributed as dist

from collapse.errors import CollapseError, run_stage
from collapse.launch.group import start_distributed
from collapse.launch.job import TrainingJob, read_job
from collapse.launch.locks import PATIENCE_SECONDS, only_one
from collapse.launch.memory import keep_freed_memory
from collapse.launch.watch import Watch
from collapse.pipeline.paths import FINISHED
from collapse.training.device import choose_device
from collapse.training.loop import InterruptedRunError
from collapse.training.run import train_run


def work(job: TrainingJob) -> None:
    """Do one process's part of a training; the main process publishes the run in its scratch folder.

    Raises:
        CollapseError: for every foreseeable failure.
    """
    run_id = job.spec.run_id
    device = choose_device(job.spec.training, job.execution)
    if device.kind == "cpu":
        keep_freed_memory()
    start_distributed(device, job.execution.threads)
    rank = dist.get_rank()
    watch = Watch(job, speaks=rank == 0)
    try:
        with ExitStack() as held:
            if rank == 0:  # it may outlive the launcher, and so holds a lock of its own
                patience = PATIENCE_SECONDS if "SLURM_JOB_ID" in os.environ else 0
                held.enter_context(only_one(job.scratch / "writer.lock", patience))
            held.enter_context(watch.listening())
            paths = (job.tokens, job.scratch, job.scratch / FINISHED)
            train_run(job.spec, job.execution, device, job.code, *paths, watch)
    except InterruptedRunError as reason:
        raise CollapseError(
            f"{run_id}: {reason}; a checkpoint is saved, and the same command resumes from it"
        ) from None
    except RuntimeError as error:  # gloo raises no class of its own
        if not re.search(r"Connection (closed|reset) by peer|Broken pipe", str(error)):
            raise
        raise CollapseError(
            f"{run_id}: training process {rank} has lost the connection to another one and cannot continue alone; the "
            "same command resumes from the last checkpoint"
        ) from None
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    run_stage(lambda: work(read_job(sys.argv[1:])))
