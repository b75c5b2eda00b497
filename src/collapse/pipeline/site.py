"""The site: settings of a cluster, in one optional file that changes no number.

The file is `config/site.yaml`; `config/site.example.yaml` is an example. Every Snakemake process reads it, on the login
node and in each job.
"""

import re
import shlex
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, Field, ValidationError

from collapse.config.base import ConfigError, PositiveInt, Section, describe, read_yaml
from collapse.config.execution import ExecutionConfig
from collapse.pipeline.cost import training_memory
from collapse.pipeline.plan import Plan

SITE = Path("config/site.yaml")
"""Path of the file, relative to the folder of the project."""
EXAMPLE = "config/site.example.yaml"
LEAST_MINUTES = 60
"""Least `max_minutes`: the largest total time of a group of jobs (profiles/default/)."""

_TAKEN = {
    "--account": "account",
    "--partition": "partition",
    "--qos": "qos",
    "--constraint": "constraint",
    "--time": "max_minutes",
}
"""Options of sbatch that have their own key, and this key."""
_MANAGED = "--job-name --output --error --open-mode --parsable --export --comment --chdir --requeue --no-requeue --mem"
_MANAGED += " --ntasks --cpus-per-task --cpus-per-gpu --nodes --clusters --gres --gpus --array --wrap --test-only"
"""Options of sbatch that the rule or the profile sets for each job, or that would change the kind of job."""


def _is_free(option: str) -> str:
    """Check one long option of sbatch that nothing else sets; abbreviations count as the whole option, as in sbatch."""
    if not re.fullmatch(r"--[a-z][a-z0-9-]*(=[\w.,:/@%+=-]+)?", option, re.ASCII):
        raise ValueError("should be one long option of sbatch, such as --nice=100, without spaces or quotes")
    name = option.split("=")[0]
    for taken, key in _TAKEN.items():
        if taken.startswith(name) or name.startswith(taken):
            raise ValueError(f"{name} is set by the key {key}")
    if any(managed.startswith(name) or name.startswith(managed) for managed in _MANAGED.split()):
        raise ValueError(f"{name} is set for each job by its rule (docs/cluster.md explains how to change it)")
    return option


def _is_enough(minutes: int) -> int:
    """Check that the time is enough for a group of small jobs, whose times add up."""
    if minutes < LEAST_MINUTES:
        raise ValueError(f"should be at least {LEAST_MINUTES}: a group of small jobs requests this time")
    return minutes


Name = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.,:&|*-]+$")]
Features = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.,:&|*()\[\]-]+$")]
Module = Annotated[str, Field(pattern=r"^[A-Za-z0-9_.+/-]+$")]
Minutes = Annotated[PositiveInt, AfterValidator(_is_enough)]
Option = Annotated[str, AfterValidator(_is_free)]
Line = Annotated[str, Field(min_length=1)]
Folder = Annotated[str, Field(pattern=r"^[/$][^\s\"`\\]*$")]


class Site(Section):
    """How jobs are submitted on a cluster, and how each one starts. A laptop needs no site."""

    account: Name | None = None
    """Account to charge."""
    partition: Name | None = None
    """Partition of jobs that need no GPU; null uses Slurm's default."""
    gpu_partition: Name | None = None
    """Partition of trainings on GPUs. If it is set, even to the same name, `execution.device: auto` means a GPU."""
    qos: Name | None = None
    """Quality of service."""
    constraint: Features | None = None
    """Features that a node must have."""
    max_minutes: Minutes | None = None
    """Longest time that a job may ask for, at least an hour; a training that needs longer resumes in the next job."""
    modules: list[Module] = Field(default_factory=list)
    """Environment modules that every job loads first."""
    setup: list[Line] = Field(default_factory=list)
    """Lines of bash that every job runs next; a line that fails ends the job."""
    scratch: Folder | None = None
    """Folder on the node in which every job creates TMPDIR, its folder for temporary files, and removes it at its end.
    The path may contain variables such as $USER."""
    extra: list[Option] = Field(default_factory=list)
    """Further long options of sbatch, one per item."""

    def minutes(self, wanted: int) -> int:
        """Time that a job requests, limited to `max_minutes`."""
        return wanted if self.max_minutes is None else min(wanted, self.max_minutes)

    def gpus(self, execution: ExecutionConfig) -> int:
        """GPUs that a training requests on each of its nodes.

        The login node may have no GPU although other nodes do, so `device: auto` means GPUs if the site has a partition
        for them.
        """
        wanted = execution.device == "cuda" or (execution.device == "auto" and self.gpu_partition is not None)
        return execution.processes_per_node if wanted else 0

    def partition_of(self, execution: ExecutionConfig) -> str | None:
        """Partition of a training."""
        return self.gpu_partition if self.gpus(execution) and self.gpu_partition is not None else self.partition

    def device(self, execution: ExecutionConfig, on_cluster: bool) -> str:
        """Option of `collapse train`: a cluster job that requested GPUs must run on them."""
        return "--device cuda" if on_cluster and self.gpus(execution) else ""

    @property
    def options(self) -> dict[str, str | None]:
        """Snakemake resources of every job, without the partition; None means left out."""
        return {
            "slurm_account": self.account,
            "qos": self.qos,
            "constraint": self.constraint,
            "slurm_extra": " ".join(["--open-mode=append", *self.extra]),
        }

    @property
    def job(self) -> dict[str, str | None]:
        """Snakemake resources of a job without GPUs."""
        return self.options | {"slurm_partition": self.partition}

    def training(self, plan: Plan) -> dict[str, Any]:
        """Snakemake resources of a training: functions of wildcards if runs differ; None means left out.

        GPUs are counted per node. A training on several nodes starts on the first one and starts the others itself.
        """

        def memory_mb(wildcards: Any) -> int:
            spec, execution = plan.runs[wildcards.run], plan.execution(wildcards.run)
            return training_memory(spec, execution, self.gpus(execution) > 0) // 1_000_000

        resources: dict[str, Any] = {
            "slurm_partition": plan.of_runs(self.partition_of),
            "mem_mb": memory_mb,
            "runtime": self.minutes(1440),
            "gpus": plan.of_runs(self.gpus),
            "gres": plan.of_runs(lambda execution: f"gpu:{self.gpus(execution)}" if self.gpus(execution) else "none"),
            "nodes": plan.of_runs(lambda execution: execution.nodes),
            "node_options": plan.of_runs(lambda execution: f"--nodes={execution.nodes} --ntasks-per-node=1"),
            "tasks": plan.of_runs(lambda execution: execution.nodes if execution.nodes > 1 else None),
            "tasks_per_gpu": 0,
            "mpi": plan.of_runs(lambda execution: "srun" if execution.nodes > 1 else None),
        }
        return resources | self.options

    @property
    def prelude(self) -> str:
        """Lines of bash at the start of every job; empty if the site needs none."""
        lines: list[str] = []
        if self.modules:
            names = shlex.join(self.modules)
            lines += [
                "command -v module >/dev/null || source /etc/profile",
                f"module load {names} || {{ echo 'error: {SITE}: modules: cannot be loaded:' {names} >&2; exit 1; }}",
            ]
        if self.setup:
            failed = f'echo "error: {SITE}: setup: failed: $BASH_COMMAND" >&2; exit 1'
            lines += [f"trap {shlex.quote(failed)} ERR", *self.setup, "trap - ERR"]
        if self.scratch is not None:
            lines += [
                f'mkdir -p "{self.scratch}" && TMPDIR=$(mktemp -d "{self.scratch}/collapse.XXXXXXXX") || '
                f'{{ echo "error: {SITE}: scratch: no folder can be made in {self.scratch}" >&2; exit 1; }}',
                "export TMPDIR",
                """trap 'rm -rf -- "$TMPDIR"' EXIT""",
            ]
        return "".join(f"{line}\n" for line in lines)


def load_site(path: Path = SITE) -> Site:
    """The site of a file; a site without settings if there is no such file.

    Raises:
        ConfigError: if the file is not a YAML mapping or has problems; lists every problem.
    """
    if not path.exists():
        return Site()
    raw = read_yaml(path)
    raw = {} if raw is None else raw
    if not isinstance(raw, dict):
        raise ConfigError([f"(file): should be a mapping of keys (got {type(raw).__name__})"], str(path))
    try:
        return Site.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(list(describe(error, raw, page=EXAMPLE)), str(path)) from None
