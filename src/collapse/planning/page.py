"""A forecast for people, and for machines."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table

from collapse.planning.cost import Memory
from collapse.planning.forecast import Estimate, Forecast

WIDTH = 140
"""Characters of a line where nobody looks: in a pipe, or a file."""
_PREFIXES = ("", "k", "M", "G", "T", "P", "E", "Z")
_MEMORY = {
    "parameters": "parameters",
    "gradients": "gradients",
    "optimizer": "master weights, Adam moments",
    "activations": "activations of a micro-batch",
    "logits": "logits and their gradients",
    "buffers": "recorder, rotary table",
}


def scaled(count: float, unit: str = "") -> str:
    """A count with three digits and a prefix: `1.38 GFLOP`, `21 G`."""
    power = 0
    while abs(count) >= 999.5 and power < len(_PREFIXES) - 1:
        count /= 1000
        power += 1
    digits = f"{count:.0f}" if count >= 99.5 or count == int(count) else f"{count:.3g}"
    return f"{digits} {_PREFIXES[power]}{unit}".rstrip()


def duration(hours: float | None) -> str:
    """Hours as people say them."""
    if hours is None:
        return "?"
    if hours < 1:
        return f"{60 * hours:.0f} min" if hours == 0 or hours > 1 / 120 else "< 1 min"
    years = hours / 24 / 365.25
    return f"{hours:.1f} h" if hours < 48 else f"{hours / 24:.1f} days" if years < 2 else f"{years:.0f} years"


def _table(title: str, *columns: str) -> Table:
    """The first column is text, the others are numbers, and the last one is as wide as it likes."""
    table = Table(title=title, title_justify="left", title_style="bold", box=box.SIMPLE_HEAD, pad_edge=False)
    for index, column in enumerate(columns):
        table.add_column(column, justify="left" if index == 0 else "right", no_wrap=True, overflow="ignore")
    return table


def _runs(forecast: Forecast) -> Table:
    table = _table("Runs", "run", "state", "steps", "tokens", "FLOP", "metrics")
    for run in forecast.runs:
        numbers = (f"{run.steps:,}", scaled(run.tokens), scaled(run.flops), scaled(run.store_bytes, "B"))
        table.add_row(run.run_id, str(run.standing), *numbers)
    return table


def _summary(forecast: Forecast) -> list[str]:
    done, begun, left = (forecast.count(state) for state in ("done", "resumable", "to do"))
    tokens, operations = (sum(getattr(run, name) for run in forecast.runs) for name in ("tokens", "flops"))
    lines = [
        f"{len(forecast.runs)} runs of {scaled(forecast.parameters)} parameters: "
        f"{done} done, {begun} resumable, {left} to do",
        f"all: {scaled(tokens)} tokens, {scaled(operations, 'FLOP')}; "
        f"left: {scaled(forecast.tokens_left)} tokens, {scaled(forecast.flops_left, 'FLOP')}",
    ]
    if other := sum(run.standing.other_code for run in forecast.runs):
        lines.append(f"{other} of those done were trained by other code than there is now (docs/workflow.md)")
    return lines


def _needs(forecast: Forecast) -> Table:
    """Memory a device, a column a precision."""
    columns: dict[str, Memory] = {}
    for estimate in forecast.estimates:
        columns.setdefault(f"{estimate.precision} on {'GPU' if estimate.device.is_gpu else 'CPU'}", estimate.memory)
    table = _table("Memory a process", "what", *columns)
    for name, label in _MEMORY.items():
        table.add_row(label, *(scaled(getattr(memory, name), "B") for memory in columns.values()))
    table.add_row("peak", *(scaled(memory.total, "B") for memory in columns.values()), style="bold")
    return table


def _disk(forecast: Forecast) -> Table:
    disk = forecast.disk
    table = _table("Disk", "what", "size")
    table.add_row("token stores", "known once made" if disk.tokens is None else scaled(disk.tokens, "B"))
    table.add_row("metrics of all runs", scaled(disk.stores, "B"))
    table.add_row("probes", scaled(disk.probes, "B"))
    table.add_row("checkpoints and history of a run under way", scaled(disk.training, "B"))
    return table


def _device(estimate: Estimate) -> tuple[str, ...]:
    memory = scaled(estimate.memory.total, "B")
    if estimate.device.memory is not None:
        memory += f" of {scaled(estimate.device.memory, 'B')}" + ("" if estimate.fits else ": TOO LITTLE")
    rate = "?" if estimate.rate is None else scaled(estimate.rate, "FLOP/s")
    return (
        f"{estimate.devices} x {estimate.device.name}",
        memory,
        f"{rate}, {estimate.device.basis}",
        str(estimate.runs_at_once),
        duration(estimate.hours),
        duration(estimate.device_hours),
    )


def _devices(forecast: Forecast) -> Table:
    table = _table(
        "Time for the trainings that are left", "devices", "memory of one", "model-FLOP/s of one", "runs at once",
        "until the end", "device time",
    )  # fmt: skip
    for estimate in forecast.estimates:
        table.add_row(*_device(estimate))
    return table


def _notes(forecast: Forecast) -> list[str]:
    notes = [f"{e.device.name}: {e.why_not}" for e in forecast.estimates if e.why_not]
    return notes + [f"{e.device.name}: {e.device.basis}: {e.device.source}" for e in forecast.estimates]


def _probes(forecast: Forecast) -> Table:
    table = _table("Probes and theory (snakemake initialization)", "dataset", "jobs", "done", "memory a job")
    for probe in forecast.probes:
        memory = "" if probe.memory_mb is None else scaled(1e6 * probe.memory_mb, "B")
        table.add_row(probe.name, str(probe.jobs), str(probe.done), memory)
    return table


def show(forecast: Forecast) -> None:
    """Print a forecast."""
    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH)
    for part in (_runs, _summary, _needs, _disk, _probes, _devices, _notes):
        made = part(forecast)
        if isinstance(made, list):
            console.print(*made, "", sep="\n", markup=False, soft_wrap=True)
        else:
            console.print(made)


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
