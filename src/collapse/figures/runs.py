"""Runs as figures show them, and the command lines of the families that show runs."""

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
from collapse.figures.command import draw_and_save, parser
from collapse.figures.labels import Row
from collapse.store.read import load_run

Shown = tuple[xr.Dataset, Row]
"""A run, and its row of the summary."""


def run_parser(family: str, about: str) -> argparse.ArgumentParser:
    """Options of every family that shows runs: those of all families, and analysis."""
    options = parser(family, about)
    options.add_argument("--analysis", required=True, help="the config's `analysis` section, JSON")
    return options


def show(path: Path, options: argparse.Namespace) -> Shown:
    """A finished run and its row.

    Raises:
        CollapseError: where there is no run, or it is unfinished or damaged.
    """
    run = load_run(path)
    return run, row(run, parse_option(AnalysisConfig, "--analysis", options.analysis))


def one_run(family: str, about: str, draw: Callable[[Shown, FiguresConfig], Figure]) -> None:
    """The command of a family that shows one run."""

    def main() -> None:
        options = run_parser(family, about)
        options.add_argument("--run", required=True, type=Path, help="folder of the finished run to show")
        chosen = options.parse_args()
        shown = show(chosen.run, chosen)
        draw_and_save(chosen, about, lambda style: draw(shown, style))

    run_stage(main)
