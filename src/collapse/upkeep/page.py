"""A forecast as text for people and as JSON for programs."""

import io
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import humanize
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from collapse.pipeline.cost import Memory
from collapse.upkeep.forecast import Estimate, Forecast

_MEMORY = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer": "master weights, Adam moments",
    "activations": "activations of a micro-batch",
    "logits": "logits and their gradients",
    "buffers": "recorder, rotary table",
}


def count(number: float, unit: str = "") -> str:
    """A number with three digits and a prefix: `1.38 GFLOP`, `21.0 G`."""
    return humanize.metric(number, unit, precision=3).strip()


def size(number: float) -> str:
    """Bytes with a prefix: `1.4 MB`."""
    return humanize.naturalsize(number)


def duration(hours: float | None) -> str:
    """Hours in a readable unit."""
    if hours is None:
        return "?"
    if hours < 1:
        return f"{60 * hours:.0f} min" if hours == 0 or hours > 1 / 120 else "< 1 min"
    years = hours / 24 / 365.25
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days" if years < 2 else f"{years:.0f} years"


def _table(title: str, header: Sequence[str], rows: Iterable[Sequence[str]]) -> Iterator[str]:
    """Lines of a table: the first column is text, the others are numbers."""
    table = Table(title=title, title_justify="left", title_style="", box=box.SIMPLE_HEAD, show_edge=False)
    for index, name in enumerate(header):
        table.add_column(name, justify="right" if index else "left", no_wrap=True)
    for row in rows:
        table.add_row(*map(escape, row))
    console = Console(file=io.StringIO(), width=1000, color_system=None)
    with console.capture() as captured:
        console.print(table)
    yield from (line.rstrip() for line in captured.get().splitlines() if line.strip())


def _runs(forecast: Forecast) -> Iterator[str]:
    rows = [
        (run.run_id, str(run.standing), f"{run.steps:,}", count(run.tokens), count(run.flops, "FLOP"),
         size(run.store_bytes))
        for run in forecast.runs
    ]  # fmt: skip
    return _table("Runs", ("run", "state", "steps", "tokens", "operations", "metrics on disk"), rows)


def _summary(forecast: Forecast) -> Iterator[str]:
    done, begun, left = (forecast.count(state) for state in ("done", "resumable", "to do"))
    tokens, operations = (sum(getattr(run, name) for run in forecast.runs) for name in ("tokens", "flops"))
    yield (
        f"{len(forecast.runs)} runs of {count(forecast.parameters)} parameters: "
        f"{done} done, {begun} resumable, {left} to do"
    )
    yield (
        f"all: {count(tokens)} tokens, {count(operations, 'FLOP')}; "
        f"left: {count(forecast.tokens_left)} tokens, {count(forecast.flops_left, 'FLOP')}"
    )
    if other := sum(run.standing.other_code for run in forecast.runs):
        yield f"{other} of the finished runs were trained with another version of the code (docs/workflow.md)"


def _needs(forecast: Forecast) -> Iterator[str]:
    """Memory per process, one column per precision."""
    columns: dict[str, Memory] = {}
    for estimate in forecast.estimates:
        columns.setdefault(f"{estimate.precision} on {'GPU' if estimate.device.is_gpu else 'CPU'}", estimate.memory)
    parts = (*_MEMORY.items(), ("total", "peak"))
    rows = [(label, *(size(getattr(memory, name)) for memory in columns.values())) for name, label in parts]
    return _table("Memory per process", ("what", *columns), rows)


def _disk(forecast: Forecast) -> Iterator[str]:
    disk = forecast.disk
    rows = [
        ("token stores", "known later" if disk.tokens is None else size(disk.tokens)),
        ("metrics of all runs", size(disk.stores)),
        ("probes", size(disk.probes)),
        ("checkpoints and history of a running training", size(disk.training)),
    ]
    return _table("Disk", ("what", "size"), rows)


def _probes(forecast: Forecast) -> Iterator[str]:
    rows = [(probe.name, str(probe.jobs), str(probe.done), size(1e6 * probe.memory_mb)) for probe in forecast.probes]
    return _table("Probes and theory (snakemake initialization)", ("dataset", "jobs", "done", "memory per job"), rows)


def _device(estimate: Estimate) -> tuple[str, ...]:
    memory = size(estimate.memory.total)
    if estimate.device.memory is not None:
        memory += f" of {count(estimate.device.memory, 'B')}" + ("" if estimate.fits else ": TOO LITTLE")
    rate = "?" if estimate.rate is None else count(estimate.rate, "FLOP/s")
    return (
        f"{estimate.devices} x {estimate.device.name}",
        memory,
        f"{rate}, {estimate.device.basis}",
        str(estimate.runs_at_once),
        duration(estimate.hours),
        duration(estimate.device_hours),
    )


def _devices(forecast: Forecast) -> Iterator[str]:
    header = ("devices", "memory of one", "speed of one", "runs at once", "time", "time x devices")
    yield from _table(
        "Time for the trainings that are left (without probes and figures)",
        header,
        [_device(e) for e in forecast.estimates],
    )
    for estimate in forecast.estimates:
        if estimate.why_not:
            yield f"{estimate.device.name}: {estimate.why_not}"
    for estimate in forecast.estimates:
        yield f"{estimate.device.name}: {estimate.device.basis}: {estimate.device.source}"


def as_text(forecast: Forecast) -> str:
    """A forecast as a page."""
    parts = (_runs, _summary, _needs, _disk, _probes, _devices)
    return "\n\n".join("\n".join(part(forecast)) for part in parts)


def as_json(forecast: Forecast) -> dict[str, Any]:
    """A forecast as plain data: bytes, tokens, FLOP and hours."""
    tokens, operations = (sum(getattr(run, name) for run in forecast.runs) for name in ("tokens", "flops"))
    return {
        "name": forecast.name,
        "parameters": forecast.parameters,
        "runs": [
            {
                "run_id": run.run_id,
                "state": run.standing.state,
                "step": run.standing.step,
                "other_code": run.standing.other_code,
                "steps": run.steps,
                "tokens": run.tokens,
                "flop": run.flops,
                "store_bytes": run.store_bytes,
            }
            for run in forecast.runs
        ],
        "totals": {
            "runs": {state: forecast.count(state) for state in ("done", "resumable", "to do")},
            "tokens": tokens,
            "tokens_left": forecast.tokens_left,
            "flop": operations,
            "flop_left": forecast.flops_left,
        },
        "disk_bytes": vars(forecast.disk),
        "probes": [vars(probe) for probe in forecast.probes],
        "devices": [
            {
                "name": estimate.device.name,
                "devices": estimate.devices,
                "precision": estimate.precision,
                "memory_bytes": vars(estimate.memory) | {"total": estimate.memory.total},
                "device_memory_bytes": estimate.device.memory,
                "flop_per_second": estimate.rate,
                "basis": estimate.device.basis,
                "source": estimate.device.source,
                "runs_at_once": estimate.runs_at_once,
                "hours": estimate.hours,
                "device_hours": estimate.device_hours,
                "why_not": estimate.why_not or None,
            }
            for estimate in forecast.estimates
        ],
    }
