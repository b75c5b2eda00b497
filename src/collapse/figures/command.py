"""The command lines of the figure families: what all share, and what those share that show a dataset."""

import argparse
from collections.abc import Callable
from pathlib import Path

import xarray as xr
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.config.option import parse_option
from collapse.errors import run_stage
from collapse.figures.style import save, theme
from collapse.store.dataset import load_dataset


def parser(family: str, about: str) -> argparse.ArgumentParser:
    """Options of every family: style, number, out."""
    options = argparse.ArgumentParser(prog=f"python -m collapse.figures.{family}", description=about)
    options.add_argument("--style", required=True, help="the config's `figures` section, JSON")
    options.add_argument("--number", type=int, help="number of the figure in the paper, for the files' metadata")
    options.add_argument("--out", required=True, type=Path, help="PNG file to write; a PDF is written beside it")
    return options


def draw_and_save(options: argparse.Namespace, title: str, draw: Callable[[FiguresConfig], Figure]) -> None:
    """Draw in the config's style, and write the files."""
    style = parse_option(FiguresConfig, "--style", options.style)
    number = f"Figure {options.number}: " if options.number is not None else ""
    with theme(style):
        save(draw(style), options.out, number + title, style)


def one_dataset(family: str, about: str, draw: Callable[[xr.Dataset, FiguresConfig], Figure]) -> None:
    """The command of a family that shows a dataset of probes or theory."""

    def main() -> None:
        options = parser(family, about)
        options.add_argument("--data", required=True, type=Path, help="finished dataset to show, a Zarr folder")
        chosen = options.parse_args()
        data = load_dataset(chosen.data)
        draw_and_save(chosen, about, lambda style: draw(data, style))

    run_stage(main)
