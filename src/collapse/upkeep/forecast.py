"""Cost of a config: everything that it needs, the part that exists, and the cost of the rest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from heapq import heapreplace
from pathlib import Path

from collapse.config.execution import ExecutionConfig
from collapse.config.probe import settings
from collapse.config.run import DataSpec
from collapse.pipeline.cost import (
    CHECKPOINTS_KEPT,
    FP32,
    Memory,
    Precision,
    checkpoint_bytes,
    flops,
    memory,
    parameter_count,
)
from collapse.pipeline.datasets import DATASETS
from collapse.pipeline.plan import Plan
from collapse.recording.statistics import LAYERWISE, METRICS, STEPWISE, SUBLAYERS
from collapse.upkeep.devices import DEVICES, Device
from collapse.upkeep.states import Standing, State, standing

HOUR = 3600.0
COMPRESSION = 0.9
"""Size of a run store relative to its values: 0.85 to 0.92 for ten runs of the laptop config."""
STORE_OVERHEAD = 30_000
"""Size of a run store without any step: its metadata."""
FP64 = 8
ATTENTION_SUMS = 3
"""Triangles of n (n + 1)/2 float32 entries that each slice of the attention probe stores per layer."""
INCREMENT_BYTES = 190
"""Size of the increments of a sublayer in one setting: 52 float64 values, compressed as in the laptop config."""
SAMPLE_BYTES = 7_000_000
"""Size of the token store of the sample corpus for a vocabulary of 2048; larger vocabularies make it smaller."""


@dataclass(frozen=True)
class Run:
    """One training."""

    run_id: str
    standing: Standing
    steps: int
    tokens: int
    flops: int
    store_bytes: int

    @property
    def left(self) -> float:
        """Share of the steps that are left."""
        return 0.0 if self.standing.state == "done" else 1 - self.standing.step / self.steps


@dataclass(frozen=True)
class Probe:
    """The jobs of one dataset of probes or theory."""

    name: str
    jobs: int
    done: int
    memory_mb: int
    """Memory per job."""


@dataclass(frozen=True)
class Disk:
    """Bytes below `results/<name>/`; corpus, small datasets, figures and the report are left out."""

    tokens: int | None
    """Token stores; None if their size is not known yet."""
    stores: int
    """Run stores of all runs."""
    checkpoint: int
    """One checkpoint of one run."""
    training: int
    """Checkpoints and metric history of one running training; deleted when it is finished."""
    probes: int
    """Slices of the sums over attention matrices; slices of the increments, and the joined dataset."""


@dataclass(frozen=True)
class Estimate:
    """Time that one or more devices need for the remaining trainings."""

    device: Device
    devices: int
    precision: Precision
    memory: Memory
    """Memory of one device, for the run that needs the most."""
    rate: float | None
    """Model-FLOP/s of one device."""
    runs_at_once: int
    hours: float | None
    """Hours until the last run is finished; None if there is no estimate."""
    device_hours: float | None
    why_not: str = ""
    """Reason if there is no estimate."""

    @property
    def fits(self) -> bool:
        """Whether the memory of the device is sufficient or unknown."""
        return self.device.memory is None or self.memory.total <= self.device.memory


@dataclass(frozen=True)
class Forecast:
    """Cost of a config."""

    name: str
    parameters: int
    runs: tuple[Run, ...]
    probes: tuple[Probe, ...]
    disk: Disk
    estimates: tuple[Estimate, ...]

    def count(self, state: State) -> int:
        """Number of runs in a state."""
        return sum(run.standing.state == state for run in self.runs)

    @property
    def flops_left(self) -> float:
        """Operations of the remaining trainings."""
        return sum(run.flops * run.left for run in self.runs)

    @property
    def tokens_left(self) -> float:
        """Tokens of the remaining trainings."""
        return sum(run.tokens * run.left for run in self.runs)


def store_bytes(layers: int, recorded_steps: int) -> int:
    """Size on disk of the run store of a run with L layers."""
    layerwise = sum(metric.dims == LAYERWISE for metric in METRICS) * layers * len(SUBLAYERS)
    stepwise = sum(metric.dims == STEPWISE for metric in METRICS) + 1  # and the step itself
    return STORE_OVERHEAD + round(COMPRESSION * recorded_steps * (FP32 * layerwise + FP64 * stepwise))


def _runs(plan: Plan) -> tuple[Run, ...]:
    config = plan.config
    checkpointing = config.execution.activation_checkpointing
    lengths = {spec.training.steps for spec in plan.runs.values()}
    recorded = {steps: len(config.record.recorded(steps)) for steps in lengths}
    made = []
    for run_id, spec in plan.runs.items():
        model, training = spec.model, spec.training
        sequences = training.steps * training.sequences_per_step
        made.append(
            Run(
                run_id=run_id,
                standing=standing(plan, run_id),
                steps=training.steps,
                tokens=sequences * model.sequence_length,
                flops=sequences * flops(model, checkpointing).total,
                store_bytes=store_bytes(model.layers, recorded[training.steps]),
            )
        )
    return tuple(made)


def _probes(plan: Plan) -> tuple[Probe, ...]:
    made = []
    for name in DATASETS:
        whole = plan.paths.dataset(name).with_suffix(".json")
        jobs = plan.slice_manifests(name) or [str(whole)]
        done = len(jobs) if whole.is_file() else sum(Path(manifest).is_file() for manifest in jobs)
        made.append(Probe(name, len(jobs), done, plan.memory_mb(name)))
    return tuple(made)


def _token_bytes(plan: Plan, tokens_id: str, data: DataSpec) -> int | None:
    """Size of a token store on disk or, if it does not exist yet, its expected size; None if unknown."""
    folder = plan.paths.tokens(tokens_id)
    if (folder / "manifest.json").is_file():
        return sum(path.stat().st_size for path in folder.glob("*.bin"))
    if data.corpus.source == "sample":
        return SAMPLE_BYTES
    if data.tokens.max_tokens is None:
        return None
    one = 2 if plan.config.model.vocab_size <= 2**16 else 4
    return round(one * data.tokens.max_tokens / (1 - data.tokens.validation_fraction))


def _disk(plan: Plan, runs: Sequence[Run]) -> Disk:
    checkpoint = checkpoint_bytes(plan.config.model)
    sizes = [_token_bytes(plan, tokens_id, data) for tokens_id, data in plan.token_stores.items()]
    return Disk(
        tokens=None if None in sizes else sum(size for size in sizes if size is not None),
        stores=sum(run.store_bytes for run in runs),
        checkpoint=checkpoint,
        training=(CHECKPOINTS_KEPT + 1) * checkpoint + max(run.store_bytes for run in runs),
        probes=_probe_bytes(plan),
    )


def _probe_bytes(plan: Plan) -> int:
    model, probe = plan.config.model, plan.config.probe
    swept = settings(probe.variance_scales, probe.deescalations, probe.sweep)
    pairs = model.sequence_length * (model.sequence_length + 1) // 2
    sums = len(plan.slices("attention")) * model.layers * ATTENTION_SUMS * FP32 * pairs
    sublayers = len(swept) * len(probe.inputs) * len(probe.placements) * probe.seeds * model.layers * 2
    return sums + 2 * sublayers * INCREMENT_BYTES


def _precision(plan: Plan, device: Device) -> Precision:
    chosen = plan.config.training.precision
    if chosen != "auto":
        return chosen
    return "bf16" if device.is_gpu else "fp32"


def _memory(plan: Plan, device: Device) -> Memory:
    """Memory of one device for the run that needs the most."""
    sequences = {(spec.model.placement, spec.training.sequences_per_step): spec.model for spec in plan.runs.values()}
    precision, execution = _precision(plan, device), plan.config.execution
    needed = (
        memory(model, execution.fitted(count), count, precision, device.is_gpu)
        for (_, count), model in sequences.items()
    )
    return max(needed, key=lambda one: one.total)


def makespan(durations: Iterable[float], at_once: int) -> float:
    """End of the last of some jobs if `at_once` of them run at a time and the longest ones start first."""
    ends = [0.0] * at_once
    for duration in sorted(durations, reverse=True):
        heapreplace(ends, ends[0] + duration)
    return max(ends)


def _taken(execution: ExecutionConfig, device: Device, devices: int) -> int:
    """Number of devices that a run uses, if `devices` are available."""
    return execution.processes if device.is_gpu else min(devices, execution.processes * execution.threads)


def _estimate(plan: Plan, runs: Sequence[Run], device: Device, devices: int) -> Estimate:
    precision = _precision(plan, device)
    rate = device.rate(precision)
    taken = [_taken(plan.execution(run.run_id), device, devices) for run in runs]
    a_run = max(taken)
    why_not = ""
    if rate is None:
        why_not = f"the speed of {precision} on this device is unknown: there is no measurement"
    elif a_run > devices:
        why_not = f"one run needs {a_run} devices (execution.processes): use --devices {a_run} or more"
    hours = device_hours = None
    if rate is not None and not why_not:
        device_hours_each = [run.flops * run.left / rate / HOUR for run in runs]
        hours_each = [hours / count for hours, count in zip(device_hours_each, taken, strict=True)]
        hours = makespan(hours_each, devices // a_run)
        device_hours = sum(device_hours_each)
    needed = _memory(plan, device)
    return Estimate(device, devices, precision, needed, rate, devices // a_run, hours, device_hours, why_not)


def forecast(plan: Plan, devices: Sequence[Device] = (), count: int = 1) -> Forecast:
    """Cost of a config, and the part of it that is left.

    Args:
        plan: The config, as the workflow sees it.
        devices: Devices for the estimates; by default all of the table that `execution.device` allows.
        count: Number of devices of each kind.
    """
    wanted = plan.config.execution.device
    chosen = devices or [device for device in DEVICES.values() if wanted in ("auto", device.kind)]
    runs = _runs(plan)
    return Forecast(
        name=plan.config.name,
        parameters=parameter_count(plan.config.model),
        runs=runs,
        probes=_probes(plan),
        disk=_disk(plan, runs),
        estimates=tuple(_estimate(plan, runs, device, count) for device in chosen),
    )
