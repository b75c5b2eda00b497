"""A real Slurm of two nodes with two pretend GPUs each, all on this machine: daemons that are children of the tests.

The configuration is a scratch folder's; nothing is written under /etc, and nothing runs behind the last test.
"""

import ctypes
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import pytest
from miniature import MINIATURE, Project, copy_project, write_text

NODES = ("node1", "node2")
GPUS = 2
"""Pretend GPUs a node: null devices. Slurm schedules them, and numbers those of each job in CUDA_VISIBLE_DEVICES."""
DAEMONS = ("munged", "slurmctld", "slurmd")
PACKAGES = ("slurm-wlm", "munge")
START_SECONDS = 60
QUIET = {"GIT_DIR": os.devnull}
"""No commit is recorded: there may be a new one between two runs that should be equal."""

CONFIGURATION = """\
ClusterName=lab
SlurmctldHost={host}(127.0.0.1)
SlurmctldPort={controller}
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
CredType=cred/munge
AuthInfo=socket={folder}/munge/munge.socket,cred_expire=10
SlurmctldPidFile={folder}/slurmctld.pid
SlurmdPidFile={folder}/slurmd.%n.pid
SlurmctldLogFile={folder}/log/slurmctld.log
SlurmdLogFile={folder}/log/slurmd.%n.log
StateSaveLocation={folder}/state
SlurmdSpoolDir={folder}/spool/%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/pgid
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MailProg=/bin/true
MpiDefault=none
SchedulerType=sched/backfill
SchedulerParameters=sched_min_interval=0,batch_sched_delay=0,bf_interval=1
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory,CR_LLN
ReturnToService=2
MinJobAge=86400
KillWait={kill_wait}
OverTimeLimit=0
PropagateResourceLimits=NONE
GresTypes=gpu
{nodes}
PartitionName=debug Nodes=ALL Default=YES MaxTime=INFINITE DefMemPerCPU=100 State=UP
"""


@dataclass(frozen=True)
class Cluster:
    """A running Slurm."""

    folder: Path

    @property
    def environment(self) -> dict[str, str]:
        """For commands that talk to it, such as `sbatch`.

        Slurm finds its configuration by a variable here, on a real cluster by itself. Snakemake's plugins drop the
        variable before they start `srun`: a shim of that name, first on PATH, puts it back.
        """
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("SLURM", "SBATCH"))}
        return inherited | {
            "SLURM_CONF": str(self.folder / "slurm.conf"),
            "PATH": f"{self.folder / 'bin'}:{os.environ['PATH']}",
            "OMP_NUM_THREADS": "1",
        }

    def run(self, *command: str, check: bool = True, timeout: float = 60) -> str:
        """What a command prints, such as `squeue`; stderr is in it."""
        ran = subprocess.run(
            command,
            env=self.environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=timeout,
            check=False,
        )
        assert ran.returncode == 0 or not check, f"{' '.join(command)}: {ran.stdout}"
        return ran.stdout

    def submit(self, script: str, *options: str, environment: Mapping[str, str] | None = None) -> int:
        """Submit lines of bash; gives the job's id."""
        ran = subprocess.run(
            ["sbatch", "--parsable", *options],
            input=f"#!/bin/bash\n{script}\n",
            env=self.environment | dict(environment or {}),
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert ran.returncode == 0, ran.stderr
        return int(ran.stdout.split(";")[0])

    def jobs(self, *states: str) -> list[int]:
        """Ids of the jobs that wait or run; of those in some states, such as RUNNING, where states are named."""
        wanted = ",".join(states or ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"))
        return [int(line) for line in self.run("squeue", "-h", "-o", "%A", "-t", wanted).split()]

    def job(self, job: int) -> dict[str, str]:
        """What `scontrol show job` knows of a job, finished ones included."""
        words = self.run("scontrol", "-o", "show", "job", str(job)).split()
        return dict(word.split("=", 1) for word in words if "=" in word)

    def state(self, job: int) -> str:
        """State of a job, such as COMPLETED."""
        return self.job(job)["JobState"]

    def wait(self, job: int, seconds: float = 120) -> str:
        """Wait for a job's end; gives the state that it ended in."""
        deadline = time.monotonic() + seconds
        while (state := self.state(job)) in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING", "REQUEUED"):
            assert time.monotonic() < deadline, f"job {job} is still {state}"
            time.sleep(0.1)
        return state

    def fail_node(self, node: str) -> None:
        """A node goes down, and with it what runs there."""
        self.run("scontrol", "update", f"nodename={node}", "state=down", "reason=test")
        self.kill(node)

    def kill(self, *nodes: str) -> None:
        """Kill what runs on some nodes: Slurm's own shepherd of each job step, known by its log, and all below it."""
        logs = {str(self.folder / f"log/slurmd.{node}.log") for node in nodes}
        for process in psutil.process_iter():
            with suppress(psutil.Error):
                if process.name() == "slurmstepd" and logs & {file.path for file in process.open_files()}:
                    for member in (process, *process.children(recursive=True)):
                        with suppress(psutil.NoSuchProcess):
                            member.kill()

    def mend_node(self, node: str) -> None:
        """A node comes back."""
        self.run("scontrol", "update", f"nodename={node}", "state=resume", check=False)
        self.wait_for_nodes()

    def wait_for_nodes(self) -> None:
        """Until every node takes jobs."""
        deadline = time.monotonic() + START_SECONDS
        listed = ("sinfo", "-h", "-N", "-r", "-t", "idle,mixed,allocated", "-o", "%N")
        while (ready := self.run(*listed, check=False).split()) != list(NODES):
            assert time.monotonic() < deadline, f"nodes that are ready: {ready or 'none'}\n{self.logs}"
            time.sleep(0.1)

    @property
    def logs(self) -> str:
        """Ends of the daemons' logs."""
        return "\n".join(f"{path.name}: {path.read_text()[-2000:]}" for path in sorted(self.folder.glob("log/*")))


def missing() -> str | None:
    """Why there can be no Slurm here; None where it is installed, or could be."""
    os.environ["PATH"] += "" if "/usr/sbin" in os.environ["PATH"].split(":") else ":/usr/sbin"
    if os.geteuid():
        return "Slurm's daemons are started as root here"
    if all(map(shutil.which, (*DAEMONS, "sbatch", "srun"))):
        return None
    if shutil.which("apt-get") is None:
        return f"{', '.join(DAEMONS)} are missing, and there is no apt-get to install them"
    quiet = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "text": True, "timeout": 300, "check": False}
    environment = os.environ | {"DEBIAN_FRONTEND": "noninteractive"}
    subprocess.run(["apt-get", "update", "-q"], **quiet)  # type: ignore[call-overload]
    install = ["apt-get", "install", "-y", "-q", "--no-install-recommends", *PACKAGES]
    ran = subprocess.run(install, env=environment, **quiet)  # type: ignore[call-overload]
    return None if ran.returncode == 0 else f"apt-get cannot install {' '.join(PACKAGES)}: {ran.stdout[-300:]}"


def free_ports(count: int) -> list[int]:
    with ExitStack() as stack:
        sockets = [stack.enter_context(socket.socket()) for _ in range(count)]
        for each in sockets:
            each.bind(("127.0.0.1", 0))
        return [each.getsockname()[1] for each in sockets]


def die_with_the_tests() -> None:
    """Asks the kernel to stop a daemon when the process that started it ends, however it ends."""
    ctypes.CDLL(None).prctl(1, signal.SIGTERM)  # PR_SET_PDEATHSIG


def configure(folder: Path, **options: Any) -> None:
    """Write everything that the daemons need under a folder."""
    for name in ("munge", "state", "log", "bin", *(f"spool/{node}" for node in NODES)):
        (folder / name).mkdir(parents=True)
    key = folder / "munge/munge.key"
    key.write_bytes(os.urandom(1024))
    key.chmod(0o600)
    for gpu in range(GPUS):
        subprocess.run(["mknod", folder / f"gpu{gpu}", "c", "1", "3"], check=True)
    (folder / "gres.conf").write_text(f"AutoDetect=off\nName=gpu File={folder}/gpu[0-{GPUS - 1}]\n")
    host = socket.gethostname().split(".")[0]
    controller, *ports = free_ports(1 + len(NODES))
    nodes = [
        f"NodeName={node} NodeHostname={host} NodeAddr=127.0.0.1 Port={port} CPUs=8 RealMemory=64000 Gres=gpu:{GPUS}"
        " State=UNKNOWN"
        for node, port in zip(NODES, ports, strict=True)
    ]
    text = CONFIGURATION.format(host=host, controller=controller, folder=folder, nodes="\n".join(nodes), **options)
    (folder / "slurm.conf").write_text(text)
    srun = folder / "bin/srun"
    srun.write_text(f'#!/bin/sh\nSLURM_CONF={folder}/slurm.conf exec {shutil.which("srun")} "$@"\n')
    srun.chmod(0o755)


@dataclass(frozen=True)
class Workflow:
    """A Snakemake at work in a project, in the background."""

    project: Project
    process: subprocess.Popen[bytes]
    log: Path

    @property
    def said(self) -> str:
        """What it has printed so far."""
        return self.log.read_text()

    def wait(self, seconds: float = 400) -> int:
        """Its exit status, once it has ended."""
        return self.process.wait(seconds)


@dataclass(frozen=True)
class Submitter:
    """Starts Snakemake with a profile, as on the login node of the cluster."""

    cluster: Cluster
    started: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def start(self, project: Project, configfile: str, *options: str, profile: str = "slurm") -> Workflow:
        log = project.folder / f"{Path(configfile).stem}-{profile}.log"
        quick = ["--seconds-between-status-checks=1", "--latency-wait=20"]
        quick += ["--slurm-init-seconds-before-status-checks=2"] if profile == "slurm" else []
        command = project.command(f"--profile=workflow/profiles/{profile}", f"--configfile={configfile}")
        with log.open("ab") as file:
            process = subprocess.Popen(
                [*command, *quick, *options],
                cwd=project.folder,
                env=project.environment() | self.cluster.environment | QUIET,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started.append(process)
        return Workflow(project, process, log)

    def stop(self) -> None:
        """Kill those that are still at work."""
        for process in self.started:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


@pytest.fixture(scope="session")
def submitter(cluster: Cluster) -> Iterator[Submitter]:
    """Snakemake on the login node; what is still at work behind the last test is killed."""
    submitter = Submitter(cluster)
    yield submitter
    submitter.stop()


@pytest.fixture(scope="session")
def pipeline(submitter: Submitter, tmp_path_factory: pytest.TempPathFactory) -> Workflow:
    """The miniature pipeline, on its way through Slurm: other tests run beside it."""
    project = copy_project(tmp_path_factory.mktemp("submitted"))
    write_text(project.folder / "text")
    return submitter.start(project, project.write_config(MINIATURE), "--jobs=4")


@pytest.fixture(scope="session")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """The running Slurm that all tests here share."""
    if reason := missing():
        pytest.skip(reason)
    folder = tmp_path_factory.mktemp("slurm")
    configure(folder, kill_wait=5)
    cluster = Cluster(folder)
    munge = folder / "munge"
    files = [f"--{name}-file={munge}/munged.{name}" for name in ("pid", "log", "seed")]
    options = ["-D", "-c", "-f", f"{folder}/slurm.conf"]
    commands = [
        ["munged", "-F", "-f", f"--key-file={munge}/munge.key", f"--socket={munge}/munge.socket", *files],
        ["slurmctld", *options],
        *(["slurmd", *options, "-N", node] for node in NODES),
    ]
    daemons: list[subprocess.Popen[bytes]] = []
    try:
        for command in commands:
            daemons.append(
                subprocess.Popen(
                    command,
                    env=cluster.environment,
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    start_new_session=True,
                    preexec_fn=die_with_the_tests,
                )
            )
        cluster.wait_for_nodes()
        yield cluster
    finally:
        cluster.run("scancel", "--user=root", check=False)
        cluster.kill(*NODES)
        for daemon in reversed(daemons):
            daemon.terminate()
        for daemon in reversed(daemons):
            try:
                t = time.time()
                daemon.wait(15)
                print(daemon.args[0], time.time() - t)
            except subprocess.TimeoutExpired:
                daemon.kill()
                daemon.wait()
