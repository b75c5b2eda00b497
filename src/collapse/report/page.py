"""The report: one page, written from the files of earlier stages."""

import base64
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import yaml
from jinja2 import Environment, PackageLoader, StrictUndefined

from collapse.analysis.summary import read_table
from collapse.claims.table import MARKS, ClaimRow, counts, read_claims
from collapse.config.root import Config
from collapse.errors import CollapseError
from collapse.figures.family import EVERY_RUN, OVERVIEW, Family, load_family
from collapse.figures.labels import Row, learning_rate, outcome, run_label
from collapse.files import write_atomic
from collapse.pipeline.gallery import Figure, figures
from collapse.report.origins import origins


@dataclass(frozen=True)
class Picture:
    """A figure as the page shows it."""

    anchor: str
    heading: str
    caption: str
    png: str
    """The picture, base64."""


def write_report(config: Config, results: Path, summary: Path, claims: Path, out: Path) -> None:
    """Write the report as one HTML file.

    Args:
        config: The whole config.
        results: Its results folder, `results/<name>`.
        summary: The summary of the runs, CSV.
        claims: The table of claims, CSV.
        out: HTML file to write.

    Raises:
        CollapseError: if anything that the report shows is missing or damaged.
    """
    write_atomic(out, render(config, results, read_table(summary), read_claims(claims)))


def render(config: Config, results: Path, summary: pd.DataFrame, claims: Sequence[ClaimRow]) -> str:
    """The report's HTML, which refers to nothing outside itself.

    Args:
        config: The whole config.
        results: Its results folder, `results/<name>`.
        summary: The table of `collapse.analysis.summary`.
        claims: The table of claims.

    Raises:
        CollapseError: if a figure, a run, a dataset, or a run's row in the summary is missing.
    """
    rows = rows_of(config, summary)
    environment = Environment(
        loader=PackageLoader("collapse.report", "."), autoescape=True, undefined=StrictUndefined, trim_blocks=True,
        lstrip_blocks=True,
    )  # fmt: skip
    environment.filters |= {"lr": learning_rate, "number": _number}
    drawn = figures(config)
    sections: dict[str, list[Picture]] = {}
    maps: dict[str, list[Picture]] = {}
    for figure in drawn.values():
        family = load_family(figure.family)
        shelf, key = (maps, family.caption) if family.category == EVERY_RUN else (sections, family.category)
        shelf.setdefault(key, []).append(_picture(figure, family, rows, results))
    pictures = [picture for shown in (*sections.values(), *maps.values()) for picture in shown]
    datasets = dict.fromkeys(figure.data for figure in drawn.values() if figure.data)
    return environment.get_template("report.html.j2").render(
        name=config.name,
        findings=[*findings(list(rows.values())), counts(claims)],
        claims=sorted(claims, key=lambda claim: list(MARKS).index(claim.verdict)),
        linked=linked(claims, drawn),
        headings={picture.anchor: picture.heading for picture in pictures},
        rows=rows,
        overview=sections.pop(OVERVIEW, []),
        sections=sections,
        maps=maps,
        config=yaml.safe_dump(config.canonical(), sort_keys=False),
        origins=origins(results, list(rows), list(datasets)),
    )


def rows_of(config: Config, summary: pd.DataFrame) -> dict[str, Row]:
    """The summary's rows of the config's runs, in the config's order.

    Raises:
        CollapseError: if a run has no row.
    """
    missing = [run_id for run_id in config.runs if run_id not in summary.index]
    if missing:
        raise CollapseError(f"the summary has no row for run {missing[0]}; make the summary again")
    rows = summary.reset_index().to_dict("records")
    by_id: dict[str, Row] = {row["run_id"]: {str(key): value for key, value in row.items()} for row in rows}
    return {run_id: by_id[run_id] for run_id in config.runs}


def findings(rows: Sequence[Row]) -> list[str]:
    """What the runs did, in sentences computed from the summary."""
    collapsed = [row for row in rows if row["collapsed"]]
    healthy = [row for row in rows if not row["collapsed"]]
    sentences = [f"{len(collapsed)} of {_runs(len(rows))} collapsed."]
    if collapsed:
        gap = max(abs(row["loss_final"] - row["freq_loss"]) for row in collapsed)
        tsim = math.floor(min(min(row["tsim_final"] for row in collapsed), 0.9999) * 1e4) / 1e4
        sentences.append(
            f"The collapsed runs end within {gap:.2f} nats of the frequency loss of their own labels, with a "
            f"last-layer token similarity above {tsim:.4f}."
        )
    learned = [row for row in collapsed if row["loss_before_transition"] < row["freq_loss"] - 0.5]
    if learned:
        best = min(learned, key=lambda row: float(row["loss_before_transition"] - row["freq_loss"]))
        sentences.append(
            f"{_runs(len(learned))} had learned before collapsing: {run_label(best)} had reached a loss of "
            f"{best['loss_before_transition']:.2f}, {best['freq_loss'] - best['loss_before_transition']:.2f} nats "
            f"below its frequency loss, before its transition at step {best['transition_step']:.0f}."
        )
    sentences.extend(
        f"{run_label(row)} {outcome(row)} and ends {abs(below):.2f} nats {'below' if below > 0 else 'above'} its "
        "frequency loss."
        for row in healthy
        for below in [row["freq_loss"] - row["loss_final"]]
    )
    return sentences


def linked(claims: Sequence[ClaimRow], figures: Mapping[str, Figure]) -> dict[str, str]:
    """The names of the config's figures by the number or the name that claims refer to them by."""
    names = {name: name for name in figures}
    names |= {str(figure.number): name for name, figure in figures.items() if figure.number is not None}
    return {claim.figure: names[claim.figure] for claim in claims if claim.figure in names}


def _picture(figure: Figure, family: Family, rows: Mapping[str, Row], results: Path) -> Picture:
    path = results / "figures" / f"{figure.name}.png"
    if not path.is_file():
        raise CollapseError(f"{path}: the figure is missing; draw it before making the report")
    png = base64.b64encode(path.read_bytes()).decode()
    run_ids = figure.runs.get("run", ())
    about = "".join(f"{run_label(rows[run_id])}: {outcome(rows[run_id])}. " for run_id in run_ids)
    if family.category == EVERY_RUN:
        return Picture(figure.name, run_ids[0], about, png)
    heading = f"Figure {figure.number}" if figure.number is not None else figure.family.replace("_", " ").capitalize()
    return Picture(figure.name, heading, about + family.full_caption(figure.number), png)


def _number(value: float, digits: int = 3) -> str:
    return "–" if pd.isna(value) else f"{value:.{digits}f}"


def _runs(count: int) -> str:
    return f"{count} run{'' if count == 1 else 's'}"
