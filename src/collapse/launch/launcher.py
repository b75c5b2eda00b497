"""Start the processes of a training: in place, through torchrun, or as a step of its own of the Slurm job it is in.

Slurm's signals, before a time limit, on `scancel` or preemption, reach the tasks of a job's steps, and no process that
these have started: Snakemake, which is one, waits for its job and passes nothing on. So a training is a step itself.
"""

import os
import signal
import socket
import subprocess
import sys
from argparse import Namespace
from collections.abc import Sequence
from datetime import timedelta
from shutil import which
from uuid import uuid4

from collapse.config.training import ExecutionConfig
from collapse.errors import CollapseError
from collapse.launch.node import FailedError, StoppedError, killed, torchrun
from collapse.launch.slurm import Allocation
from collapse.launch.worker import work

WORKER = "collapse.launch.worker"
IDENTITY = {"SLURM_CONF", "SLURM_CLUSTER_NAME", "SLURM_JOB_ID", "SLURM_JOBID"}
"""What a step inside a job needs of Slurm's variables; others are the options of the step around it."""

SIGNALLED = 128
"""Added by srun to the signal that ended a task, for its exit status."""


def start(options: Namespace, execution: ExecutionConfig, gpus: Sequence[str] | None, job: Allocation | None) -> None:
    """Run the processes of a training to their end.

    Args:
        options: of the training command.
        execution: how the run is trained.
        gpus: ids of the GPUs to use on this machine; None for all that are seen, or none.
        job: the Slurm job that this process is in, if any.

    Raises:
        CollapseError: where a process fails, or the training was asked to stop.
    """
    if gpus is not None:
        os.environ["CUDA_VISIBLE_DEVICES"] = ",".join(gpus)
    if job is not None and which("srun"):
        _step(options, execution, gpus)
    elif execution.nodes > 1:
        raise CollapseError(
            f"execution.nodes is {execution.nodes}, and this is no Slurm job with srun: submit trainings to Slurm, or "
            "set execution.nodes to 1"
        )
    elif execution.processes == 1:
        work(options)
    else:
        _here(options, execution.processes)


def _command(options: Namespace) -> list[str]:
    """Options of the command for each process, and what the launcher knows."""
    command = [*sys.argv[1:], "--began", str(options.began)]
    return command if options.job_end is None else [*command, "--job-end", str(options.job_end)]


def _failed(processes: int, status: int = 1) -> CollapseError:
    if status > SIGNALLED:
        return CollapseError(killed("a training process", status - SIGNALLED))
    if processes == 1:
        return CollapseError("the training has not come to its end; why is said above")
    return CollapseError(f"one of the {processes} training processes failed; its message is above")


def _stopped(processes: int) -> CollapseError:
    saved = "has saved a checkpoint if it" if processes == 1 else "have saved a checkpoint if they"
    whose = "training process" if processes == 1 else f"{processes} training processes"
    return CollapseError(f"asked to stop; the {whose} {saved} could, and the same command goes on from it")


def _here(options: Namespace, processes: int) -> None:
    """Several processes on this machine, with a free port of torchrun's choosing."""
    try:
        torchrun(["--standalone", f"--nproc-per-node={processes}", "-m", WORKER, *_command(options)])
    except FailedError:
        raise _failed(processes) from None
    except StoppedError:
        raise _stopped(processes) from None


def _step(options: Namespace, execution: ExecutionConfig, gpus: Sequence[str] | None) -> None:
    """A step of the Slurm job with a task a node: torchrun, or where there is one process the worker itself.

    All of torchrun's tasks meet at a store of this process, whose port the operating system has chosen and nobody else
    can take. SIGTERM is handed on as SIGUSR1, for srun kills its tasks when it gets SIGTERM itself.
    """
    nodes, processes = execution.nodes, execution.processes
    command = ["srun", "--quiet", f"--nodes={nodes}", f"--ntasks={nodes}", "--ntasks-per-node=1"]
    command += ["--overlap", "--cpu-bind=none", "--kill-on-bad-exit=1", f"--job-name={options.out.name}"]
    if gpus is not None:
        command += ["env", f"CUDA_VISIBLE_DEVICES={','.join(gpus)}"]
    command += [sys.executable, "-m"]
    store = None
    if processes > 1:
        from torch._C._distributed_c10d import TCPStore

        host = socket.gethostname()
        forever = timedelta(days=365)
        store = TCPStore(host, 0, is_master=True, wait_for_workers=False, timeout=forever)
        command += ["collapse.launch.node", f"--nnodes={nodes}", f"--nproc-per-node={execution.processes_per_node}"]
        command += ["--rdzv-backend=c10d", f"--rdzv-endpoint={host}:{store.port}", "--rdzv-conf=is_host=false"]
        command += [f"--rdzv-id={uuid4().hex}", "--signals-to-handle=SIGTERM,SIGUSR1", "-m"]
    command += [WORKER, *_command(options)]
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM_", "SRUN_"))}
    environment = kept | {name: os.environ[name] for name in IDENTITY if name in os.environ}
    # In a session of its own srun gets no signal that is meant for all of a scheduler's or a terminal's processes.
    step = subprocess.Popen(command, env=environment, stdin=subprocess.DEVNULL, start_new_session=True)
    asked: list[int] = []

    def hand_on(number: int, _: object) -> None:
        asked.append(number)
        step.send_signal(signal.SIGUSR1)

    before = signal.signal(signal.SIGTERM, hand_on)
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
