"""Draw any figure from stored runs or datasets."""

from collections.abc import Mapping, Sequence
from pathlib import Path

import xarray as xr

from collapse.config.analysis import AnalysisConfig
from collapse.config.figures import FiguresConfig
from collapse.figures.family import load_family
from collapse.figures.runs import Shown, show
from collapse.figures.style import save, theme
from collapse.store.dataset import load_dataset


def draw_figure(
    family: str,
    inputs: Mapping[str, Sequence[Path]],
    style: FiguresConfig,
    analysis: AnalysisConfig,
    number: int | None,
    out: Path,
) -> None:
    """Draw a figure and write it as PNG and PDF.

    Args:
        family: Module of this package that draws it.
        inputs: By input of the family's `draw`: one dataset `name.zarr`, or folders of finished runs.
        style: How figures look.
        analysis: Thresholds of the analysis, for the runs' rows of the summary.
        number: Number in the paper, if any; part of the files' metadata.
        out: PNG file to write; the PDF goes beside it.

    Raises:
        CollapseError: if a run or a dataset is missing, unfinished or damaged.
    """
    chosen = load_family(family)
    loaded = {name: _load(paths, analysis) for name, paths in inputs.items()}
    with theme(style):
        save(chosen.draw(style, **loaded), out, chosen.heading(number), style)


def _load(paths: Sequence[Path], analysis: AnalysisConfig) -> xr.Dataset | list[Shown]:
    if any(path.suffix == ".zarr" for path in paths):
        (dataset,) = paths
        return load_dataset(dataset)
    return [show(folder, analysis) for folder in paths]
