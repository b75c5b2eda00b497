"""Draw any figure."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from collapse.config.figures import FiguresConfig
from collapse.figures.family import load_family
from collapse.figures.style import save, theme
from collapse.store.dataset import load_dataset

if TYPE_CHECKING:  # a figure of a dataset must not depend on the code that reads runs
    from collapse.figures.runs import Shown


def draw_figure(
    family: str,
    inputs: "Mapping[str, Path | Sequence[Shown]]",
    style: FiguresConfig,
    number: int | None,
    out: Path,
) -> None:
    """Draw a figure and write it as PNG and PDF.

    Args:
        family: Module of this package that draws it.
        inputs: By input of the family's `draw`: the path of a dataset `name.zarr`, or runs.
        style: How figures look.
        number: Number in the paper, if any; part of the files' metadata.
        out: PNG file to write; the PDF goes beside it.

    Raises:
        CollapseError: if a dataset is missing, unfinished or damaged.
    """
    chosen = load_family(family)
    loaded = {name: load_dataset(given) if isinstance(given, Path) else given for name, given in inputs.items()}
    with theme(style):
        save(chosen.draw(style, **loaded), out, chosen.heading(number), style)
