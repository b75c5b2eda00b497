"""Start the processes of a training: in place, through torchrun, or as a step of the Slurm job that it is in.

Slurm sends its signals (before a time limit, on `scancel`, on preemption) to the tasks of a job's steps, but not to the
processes that these have started. Snakemake is such a task; it waits for its job and passes no signal on. Therefore a
training runs as a step of its own.
"""

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from datetime import timedelta
from shutil import which
from uuid import uuid4

from collapse.errors import CollapseError
from collapse.launch.job import TrainingJob
from collapse.launch.node import FailedError, StoppedError, killed, torchrun
from collapse.launch.slurm import Allocation
from collapse.launch.worker import work

NODE = "collapse.launch.node"
WORKER = "collapse.launch.worker"
IDENTITY = {"SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_JOBID"}
"""Slurm's variables that a step inside a job needs; the others are options of the step around it."""

SIGNALLED = 128
"""srun's exit status is this plus the signal that ended a task."""


def start(job: TrainingJob, gpus: Sequence[str] | None, allocation: Allocation | None) -> None:
    """Run the processes of a training to their end.

    Args:
        job: the training.
        gpus: ids of the GPUs to use on each node; None for all that are visible, or none.
        allocation: the Slurm job that this process is in, if any.

    Raises:
        CollapseError: if a process fails, or the training was asked to stop.
    """
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if allocation is not None and which("srun"):
        _step(job, gpus)
    elif job.execution.nodes > 1:
        raise CollapseError(
            f"execution.nodes is {job.execution.nodes}, and this is no Slurm job with srun: submit trainings to Slurm, "
            "or set execution.nodes to 1"
        )
    elif job.execution.processes == 1:
        work(job)
    else:
        _here(job)


def _failed(processes: int, status: int = 1) -> CollapseError:
    if status > SIGNALLED:
        return CollapseError(killed("a training process", status - SIGNALLED))
    if processes == 1:
        return CollapseError("the training did not finish; see the message above")
    return CollapseError(f"one of the {processes} training processes failed; see the message above")


def _stopped(processes: int) -> CollapseError:
    saved = "training process saved a checkpoint if it could"
    if processes > 1:
        saved = f"{processes} training processes saved a checkpoint if they could"
    return CollapseError(f"asked to stop; the {saved}, and the same command resumes from it")


def _here(job: TrainingJob) -> None:
    """Run several processes on this machine, with a free port that torchrun chooses."""
    processes = job.execution.processes
    try:
        torchrun(["--standalone", f"--nproc-per-node={processes}", "-m", WORKER, job.model_dump_json()])
    except FailedError:
        raise _failed(processes) from None
    except StoppedError:
        raise _stopped(processes) from None


def _step(job: TrainingJob, gpus: Sequence[str] | None) -> None:
    """Run a step of the Slurm job with a task per node: torchrun, or the worker itself if there is one process.

    All torchrun tasks meet at a store of this process. The operating system chose its port, so that nobody else can
    take it. SIGTERM is passed on as SIGUSR1, because srun kills its tasks if it receives SIGTERM itself.
    """
    nodes, processes = job.execution.nodes, job.execution.processes
    command = ["srun", "--quiet", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    command += ["--overlap", "--cpu-bind=none", "--kill-on-bad-exit=1", f"--job-name={job.out.name}"]
    if gpus is not None:
        command += ["env", f"CUDA_VISIBLE_DEVICES={','.join(gpus)}"]
    command += [sys.executable, "-m"]
    store = None
    if processes > 1:
        from torch._C._distributed_c10d import TCPStore

        host = socket.gethostname()
        forever = timedelta(days=365)
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=forever)
        command += [NODE, f"--nnodes={nodes}", f"--nproc-per-node={job.execution.processes_per_node}"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{store.port}", "--rdzv-conf=is_host=false"]
        command += [f"--rdzv-id={uuid4().hex}", "--signals-to-handle=SIGTERM,SIGUSR1", "-m"]
    command += [WORKER, job.model_dump_json()]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SRUN_"))}
    environment = kept | {name: os.environ[name] for name in IDENTITY if name in os.environ}
    # In a session of its own srun gets no signal that is meant for all of a scheduler's or a terminal's processes.
    step = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    asked: list[int] = []

    def pass_on(number: int, _: object) -> None:
        asked.append(number)
        step.send_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGTERM, pass_on)
    try:
        status = step.wait()
    except BaseException:
        step.terminate()
        step.wait()
        raise
    finally:
        signal.signal(signal.SIGTERM, before)
        del store
    if status:
        raise _stopped(processes) if asked else _failed(processes, status)
