"""The `collapse` command: every job of the workflow, and tools to plan, check and clean up."""

import json
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Annotated, Literal

import typer

from collapse import jobs
from collapse.config.root import Config, load
from collapse.errors import CollapseError, run_stage
from collapse.files import write_atomic
from collapse.pipeline.datasets import DATASETS
from collapse.pipeline.plan import Plan
from collapse.pipeline.roles import roles

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False, help=__doc__)
CONFIGS = Path("config")
DEFAULT = CONFIGS / "config.yaml"
JOBS = "Jobs of the workflow: `make results` runs them all"

ConfigFile = Annotated[Path, typer.Option(help="The config.")]
ConfigFiles = Annotated[list[Path], typer.Option("--configfile", help="A config; repeat for several.")]
CorpusId = Annotated[str | None, typer.Option(help="A corpus of the config; by default the one that runs read.")]
TokensId = Annotated[str | None, typer.Option(help="A token store of the config; by default the one that runs read.")]
Log = Annotated[Path | None, typer.Option(help="Also append all output to this file.")]
Threads = Annotated[int | None, typer.Option(min=1, help="CPU threads; by default those of the config.")]


def _known(kind: str, name: str, names: Sequence[str], configfile: Path) -> str:
    """The name, if the config has it.

    Raises:
        CollapseError: if the config does not have it.
    """
    if name not in names:
        raise CollapseError(f"{configfile}: no {kind} {name!r}; the config has {', '.join(names) or 'none'}")
    return name


def _job(work: Callable[[], None], *logs: Path | None) -> None:
    """Run a job; all output, including its error, also goes to the logs."""
    files = [log for log in logs if log is not None]
    with jobs.logged(*files) if files else nullcontext():
        try:
            run_stage(work)
        except Exception:
            traceback.print_exc()
            sys.exit(1)


@app.command(rich_help_panel=JOBS)
def corpus(corpus_id: CorpusId = None, configfile: ConfigFile = DEFAULT, log: Log = None) -> None:
    """Fetch the sample corpus."""

    def work() -> None:
        plan = Plan(load(configfile))
        jobs.fetch_corpus(plan, _known("corpus", corpus_id or plan.config.data.corpus_id, [*plan.corpora], configfile))

    _job(work, log)


@app.command(rich_help_panel=JOBS)
def tokenizer(tokens_id: TokensId = None, configfile: ConfigFile = DEFAULT, log: Log = None) -> None:
    """Train the tokenizer of a token store, or fetch it. Needs the text: a corpus or the config's own files."""

    def work() -> None:
        plan = Plan(load(configfile))
        store = _known("token store", tokens_id or plan.config.data.tokens_id, [*plan.token_stores], configfile)
        jobs.make_tokenizer(plan, store)

    _job(work, log)


@app.command(rich_help_panel=JOBS)
def tokenize(
    tokens_id: TokensId = None, threads: Threads = None, configfile: ConfigFile = DEFAULT, log: Log = None
) -> None:
    """Write a token store. Needs its tokenizer."""

    def work() -> None:
        plan = Plan(load(configfile))
        store = _known("token store", tokens_id or plan.config.data.tokens_id, [*plan.token_stores], configfile)
        jobs.tokenize(plan, store, threads or plan.config.execution.threads)

    _job(work, log)


@app.command(rich_help_panel=JOBS)
def train(
    run: Annotated[str, typer.Option(help="The run's id; `collapse runs` lists them.")],
    device: Annotated[Literal["cpu", "cuda"] | None, typer.Option(help="Instead of execution.device.")] = None,
    configfile: ConfigFile = DEFAULT,
    log: Log = None,
) -> None:
    """Train a run, or resume it from its last checkpoint. Needs the token store; leaves a finished run as it is."""

    def work() -> None:
        plan = Plan(load(configfile))
        jobs.train(plan, _known("run", run, [*plan.runs], configfile), device)

    # Snakemake deletes a log before the next attempt. It does not know the second log, which keeps all attempts.
    _job(work, log, None if log is None else log.with_suffix(".attempts.log"))


@app.command(rich_help_panel=JOBS)
def probe(
    dataset: Annotated[str, typer.Option(help=f"One of {', '.join(DATASETS)}.")],
    seeds: Annotated[
        tuple[int, int] | None, typer.Option(help="Measure a slice: the first seed, and the seed after the last.")
    ] = None,
    join: Annotated[bool, typer.Option("--join", help="Join the measured slices.")] = False,
    threads: Threads = None,
    configfile: ConfigFile = DEFAULT,
    log: Log = None,
) -> None:
    """Measure a dataset of probes, checks or theory, or a slice of its seeds, or join the slices."""

    def work() -> None:
        plan = Plan(load(configfile))
        slices = plan.slices(_known("dataset", dataset, [*DATASETS], configfile))
        count = threads or plan.threads(dataset)
        if join and slices and seeds is None:
            jobs.join(plan, dataset, count)
        elif seeds is None and not slices and not join:
            jobs.measure(plan, dataset, None, count)
        elif seeds in slices and not join:
            jobs.measure(plan, dataset, seeds, count)
        else:
            wanted = " or ".join([*(f"--seeds {first} {last}" for first, last in slices), "--join"])
            advice = f"give {wanted}" if slices else "leave out --seeds and --join"
            raise CollapseError(f"{configfile}: {dataset} is {'' if slices else 'not '}measured in slices: {advice}")

    _job(work, log)


@app.command(rich_help_panel=JOBS)
def summary(configfile: ConfigFile = DEFAULT, log: Log = None) -> None:
    """Write the table of runs, summary.csv."""
    _job(lambda: jobs.summarize(Plan(load(configfile))), log)


@app.command(rich_help_panel=JOBS)
def claims(configfile: ConfigFile = DEFAULT, log: Log = None) -> None:
    """Write the table of claims, claims.csv."""
    _job(lambda: jobs.judge(Plan(load(configfile))), log)


@app.command(rich_help_panel=JOBS)
def figure(
    figure: Annotated[str, typer.Option(help="The figure's file name without its extension.")],
    configfile: ConfigFile = DEFAULT,
    log: Log = None,
) -> None:
    """Draw a figure."""

    def work() -> None:
        plan = Plan(load(configfile))
        jobs.draw(plan, _known("figure", figure, [*plan.figures], configfile))

    _job(work, log)


@app.command(rich_help_panel=JOBS)
def report(configfile: ConfigFile = DEFAULT, log: Log = None) -> None:
    """Write the report page, report.html."""
    _job(lambda: jobs.report(Plan(load(configfile))), log)


def _roles(config: Config) -> dict[str, list[str]]:
    """The roles of each run in the figures."""
    cast = roles(config)
    single = {"collapsing": cast.collapsing, "second seed": cast.second_seed, "stable": cast.stable}
    played = [(run_id, role) for role, run_id in single.items() if run_id]
    played += [(run_id, f"ablation {index}") for index, run_id in enumerate(cast.ablations, start=1)]
    played += [(run_id, f"no warmup, {config.runs[run_id].training.scope}") for run_id in cast.no_warmup]
    return {run_id: [role for player, role in played if player == run_id] for run_id in config.runs}


@app.command()
def runs(configfile: ConfigFile = DEFAULT) -> None:
    """List the runs of a config, their roles in the figures, and whether they are finished."""
    from collapse.upkeep.states import standing

    plan = Plan(load(configfile))
    for run_id, played in _roles(plan.config).items():
        typer.echo(f"{run_id:45} {standing(plan, run_id)!s:24} {', '.join(played)}".rstrip())


@app.command()
def plan(
    configfile: ConfigFile = DEFAULT,
    device: Annotated[list[str], typer.Option(help="Estimate the time on this device; repeat for several.")] = [],  # noqa: B006
    devices: Annotated[int, typer.Option(min=1, help="Number of devices of each kind.")] = 1,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON: bytes, tokens, FLOP, hours.")] = False,
) -> None:
    """Show the cost of a config, its finished part, and the time for the rest; starts nothing.

    Devices: xeon-core, a100, h100, h200; by default all that the config allows. docs/planning.md explains the numbers.
    """
    from collapse.upkeep import page
    from collapse.upkeep.devices import device as find_device
    from collapse.upkeep.forecast import forecast

    foreseen = forecast(Plan(load(configfile)), [find_device(name) for name in device], devices)
    typer.echo(json.dumps(page.as_json(foreseen), indent=2) if as_json else page.as_text(foreseen))


@app.command()
def gc(
    configfile: ConfigFiles = [],  # noqa: B006 - typer needs a list for an option that can be repeated
    remove: Annotated[bool, typer.Option("--remove", help="Delete the listed results.")] = False,
) -> None:
    """List what no config refers to any more: runs, datasets, token stores, corpora, scratch folders, figures.

    By default it considers all of config/*.yaml, and only results with the names of these configs.
    """
    from collapse.upkeep.gc import leftovers, refuse_while_running
    from collapse.upkeep.page import size as readable

    files = configfile or sorted(path for path in CONFIGS.glob("*.yaml") if not path.name.startswith("site."))
    if not files:
        raise CollapseError(
            f"no config in {CONFIGS.resolve()}: start this command in the project's folder, or use --configfile"
        )
    found = leftovers([load(path) for path in files])
    if remove:
        refuse_while_running()
    total = 0
    for leftover in found:
        size = leftover.size
        total += size
        typer.echo(f"{leftover.kind:8} {readable(size):>9}  {leftover.path}")
        if remove:
            leftover.remove()
    if not found:
        typer.echo("nothing to remove: every result belongs to a config")
    elif remove:
        typer.echo(f"removed {len(found)}, {readable(total)}")
    else:
        typer.echo(f"{len(found)} to remove, {readable(total)}: collapse gc --remove")


@app.command()
def verify(results: Annotated[Path, typer.Argument(help="A results folder, such as results/laptop.")]) -> None:
    """Compute the digests of all finished stores again, and list damaged and missing files."""
    from collapse.upkeep import verify as verification

    whole, damaged = 0, 0
    for store in verification.verify(results):
        whole, damaged = whole + (not store.problems), damaged + bool(store.problems)
        for problem in store.problems:
            typer.echo(problem)
    if damaged:
        raise CollapseError(
            f"{results}: {damaged} of {whole + damaged} stores are not complete: delete each with its manifest, and "
            "make it again"
        )
    typer.echo(f"all {whole} stores are complete")


@app.command()
def docs(folder: Annotated[Path, typer.Option(help="The project's folder.")] = Path()) -> None:
    """Write the pages generated from the code: reference and schema of the config, and the recorded quantities."""
    from collapse.reference import generated

    for name, text in generated().items():
        write_atomic(folder / name, text)
        typer.echo(name)


def main() -> None:
    """Entry point."""
    run_stage(app)
