"""The command line that the figure families share."""

import argparse
from collections.abc import Callable
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from collapse.analysis.summary import row
from collapse.config.analysis import AnalysisConfig
from collapse.config.figures import FiguresConfig
from collapse.config.option import parse_option
from collapse.errors import run_stage
from collapse.figures.labels import Row
from collapse.figures.style import save, theme
from collapse.store.read import load_run

Shown = tuple[xr.Dataset, Row]
"""A run, and its row of the summary."""


def parser(family: str, about: str) -> argparse.ArgumentParser:
    """Options of every family: style, analysis, number, out."""
    options = argparse.ArgumentParser(prog=f"python -m collapse.figures.{family}", description=about)
    options.add_argument("--style", required=True, help="the config's `figures` section, JSON")
    options.add_argument("--analysis", required=True, help="the config's `analysis` section, JSON")
    options.add_argument("--number", type=int, help="number of the figure in the paper, for the files' metadata")
    options.add_argument("--out", required=True, type=Path, help="PNG file to write; a PDF is written beside it")
    return options


def show(path: Path, options: argparse.Namespace) -> Shown:
    """A finished run and its row.

    Raises:
        CollapseError: where there is no run, or it is unfinished or damaged.
    """
    run = load_run(path)
    return run, row(run, parse_option(AnalysisConfig, "--analysis", options.analysis))


def draw_and_save(options: argparse.Namespace, title: str, draw: Callable[[FiguresConfig], Figure]) -> None:
    """Draw in the config's style, and write the files."""
    style = parse_option(FiguresConfig, "--style", options.style)
    number = f"Figure {options.number}: " if options.number is not None else ""
    with theme(style):
        save(draw(style), options.out, number + title, style)


def one_run(family: str, about: str, draw: Callable[[Shown, FiguresConfig], Figure]) -> None:
    """The command of a family that shows one run."""

    def main() -> None:
        options = parser(family, about)
        options.add_argument("--run", required=True, type=Path, help="folder of the finished run to show")
        chosen = options.parse_args()
        shown = show(chosen.run, chosen)
        draw_and_save(chosen, about, lambda style: draw(shown, style))

    run_stage(main)
