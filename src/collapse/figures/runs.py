"""Runs as figures show them."""

from pathlib import Path
from typing import NamedTuple

import xarray as xr

from collapse.analysis.summary import row
from collapse.config.analysis import AnalysisConfig
from collapse.figures.labels import Row
from collapse.store.read import load_run


class Shown(NamedTuple):
    """A run and its row of the summary."""

    data: xr.Dataset
    row: Row


def show(folder: Path, analysis: AnalysisConfig) -> Shown:
    """A finished run and its row.

    Raises:
        CollapseError: if there is no run, or it is unfinished or damaged.
    """
    data = load_run(folder)
    return Shown(data, row(data, analysis))
