"""The `collapse` command: what is done around the workflow. The stages are commands of their own."""

import json
from pathlib import Path
from typing import Annotated

import typer

from collapse.config import reference
from collapse.config.root import Config, load
from collapse.errors import CollapseError, run_stage
from collapse.files import write_atomic
from collapse.pipeline.fingerprint import fingerprint
from collapse.pipeline.paths import results
from collapse.pipeline.plan import Plan
from collapse.pipeline.roles import roles
from collapse.recording import reference as metrics
from collapse.upkeep import gc as garbage
from collapse.upkeep import page
from collapse.upkeep import verify as verification
from collapse.upkeep.devices import device as find_device
from collapse.upkeep.forecast import forecast
from collapse.upkeep.states import standing

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    help="Around the workflow that `make results` runs.",
)
CONFIGS = Path("config")

ConfigFiles = Annotated[list[Path], typer.Option("--configfile", help="A config; repeat for several.")]


def _size(count: float) -> str:
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} TB"


def _all_configs() -> list[Path]:
    return sorted(path for path in CONFIGS.glob("*.yaml") if not path.name.startswith("site."))


def _parts(config: Config) -> dict[str, list[str]]:
    """Parts that each run plays in the figures."""
    cast = roles(config)
    single = {"collapsing": cast.collapsing, "second seed": cast.second_seed, "stable": cast.stable}
    played = [(run_id, part) for part, run_id in single.items() if run_id]
    played += [(run_id, f"ablation {index}") for index, run_id in enumerate(cast.ablations, start=1)]
    played += [(run_id, f"no warmup, {config.runs[run_id].training.scope}") for run_id in cast.no_warmup]
    return {run_id: [part for played_by, part in played if played_by == run_id] for run_id in config.runs}


@app.command()
def runs(configfile: Annotated[Path, typer.Option(help="The config.")] = CONFIGS / "config.yaml") -> None:
    """List the runs of a config, the parts they play in the figures, and whether they are finished."""
    config = load(configfile)
    paths, code = results(config.name), fingerprint("collapse.training.loop")
    for run_id, parts in _parts(config).items():
        typer.echo(f"{run_id:45} {standing(paths, run_id, code)!s:24} {', '.join(parts)}".rstrip())


@app.command()
def plan(
    configfile: Annotated[Path, typer.Option(help="The config.")] = CONFIGS / "config.yaml",
    device: Annotated[list[str], typer.Option(help="Estimate the time on this device; repeat for several.")] = [],  # noqa: B006
    devices: Annotated[int, typer.Option(min=1, help="How many of each work at once.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: bytes, tokens, FLOP, hours.")] = False,
) -> None:
    """Say what a config costs, what of it is done, and how long the rest will take; launches nothing.

    Devices: xeon-core, a100, h100, h200; all that fit the config, if none is named. docs/planning.md says how numbers
    come about.
    """
    foreseen = forecast(Plan(load(configfile)), [find_device(name) for name in device], devices)
    typer.echo(json.dumps(page.as_json(foreseen), indent=2) if as_json else page.as_text(foreseen))


@app.command()
def gc(
    configfile: ConfigFiles = [],  # noqa: B006 - typer's way of an option that may be repeated
    remove: Annotated[bool, typer.Option("--remove", help="Delete what is listed.")] = False,
) -> None:
    """List what no config refers to any more: runs, token stores, corpora, scratch folders, figures.

    Without --configfile all of config/*.yaml count. Only results of their names are looked at.
    """
    files = configfile or _all_configs()
    if not files:
        raise CollapseError(
            f"no config in {CONFIGS.resolve()}: start this in the project's folder, or use --configfile"
        )
    found = garbage.leftovers([load(path) for path in files])
    if remove:
        garbage.refuse_while_running()
    total = 0
    for leftover in found:
        size = leftover.size
        total += size
        typer.echo(f"{leftover.kind:8} {_size(size):>8}  {leftover.path}")
        if remove:
            leftover.remove()
    if not found:
        typer.echo("nothing to remove: every result belongs to a config")
    elif remove:
        typer.echo(f"removed {len(found)}, {_size(total)}")
    else:
        typer.echo(f"{len(found)} to remove, {_size(total)}: collapse gc --remove")


@app.command()
def verify(results: Annotated[Path, typer.Argument(help="A results folder, such as results/laptop.")]) -> None:
    """Compute the digests of everything finished again, and name whatever is damaged or missing."""
    whole, damaged = 0, 0
    for store in verification.verify(results):
        whole, damaged = whole + (not store.problems), damaged + bool(store.problems)
        for problem in store.problems:
            typer.echo(problem)
    if damaged:
        raise CollapseError(
            f"{results}: {damaged} of {whole + damaged} stores are not whole: delete each with its manifest, and make "
            "it again"
        )
    typer.echo(f"{whole} stores whole")


@app.command()
def docs(folder: Annotated[Path, typer.Option(help="The project's folder.")] = Path()) -> None:
    """Write the pages that are generated from the code: the config's reference and schema, the recorded quantities."""
    for name, text in generated().items():
        write_atomic(folder / name, text)
        typer.echo(name)


def generated() -> dict[str, str]:
    """Generated files by their path in the project."""
    return {
        "config/README.md": reference.page(),
        "config/schema.json": reference.schema(),
        "docs/metrics.md": metrics.page(),
    }


def main() -> None:
    """Entry point."""
    run_stage(app)
