"""How every figure looks, and how it is saved."""

import io
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from string import ascii_lowercase
from typing import Any

import matplotlib as mpl
import numpy as np
import seaborn as sns
from matplotlib.axes import Axes
from matplotlib.colors import Colormap
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.files import write_atomic

COLUMN = 3.25
"""Width of a figure in one column, inches."""
FULL = 6.75
"""Width of a figure over both columns, inches."""

# Okabe and Ito's colours, distinguishable with any common colour vision.
INK = "#333333"
BLUE = "#0072B2"
GREEN = "#009E73"
VERMILION = "#D55E00"
PURPLE = "#CC79A7"

_RC = {
    "axes.axisbelow": True,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.linewidth": 0.6,
    "axes.titlelocation": "left",
    "axes.titlepad": 4,
    "axes.spines.right": False,
    "axes.spines.top": False,
    "font.family": "DejaVu Sans",
    "grid.linewidth": 0.4,
    "legend.frameon": False,
    "legend.handlelength": 1.4,
    "lines.linewidth": 1.0,
    "lines.solid_capstyle": "round",
    "pdf.fonttype": 42,
    "text.color": INK,
    "xtick.color": INK,
    "xtick.major.size": 3,
    "xtick.major.width": 0.6,
    "xtick.minor.size": 1.5,
    "xtick.minor.width": 0.4,
    "ytick.color": INK,
    "ytick.major.size": 3,
    "ytick.major.width": 0.6,
    "ytick.minor.size": 1.5,
    "ytick.minor.width": 0.4,
}
_PRINT_SCALE = 0.8
"""Seaborn's contexts are for screens; their fonts are too large for a figure as wide as a column."""


@contextmanager
def theme(style: FiguresConfig) -> Iterator[None]:
    """Draw and save every figure within this context."""
    with mpl.rc_context():
        sns.set_theme(context=style.context, style="ticks", font_scale=_PRINT_SCALE * style.font_scale, rc=_RC)
        yield


def colour_map(style: FiguresConfig) -> Colormap:
    """The config's palette, continuous."""
    palette: Colormap = sns.color_palette(style.palette, as_cmap=True)
    return palette


def ordered_colours(style: FiguresConfig, count: int) -> list[Any]:
    """Colours for ordered curves, first to last, without the ends of the palette, which fade on paper."""
    return list(colour_map(style)(np.linspace(0.05, 0.88, count)))


def panel_letters(axes: Sequence[Axes], titles: Sequence[str]) -> None:
    """Titles (a), (b), ... over the panels."""
    for letter, ax, title in zip(ascii_lowercase, axes, titles, strict=False):
        ax.set_title(f"({letter}) {title}")


def headline(figure: Figure, text: str) -> None:
    """A line above the whole figure that says what it shows."""
    figure.suptitle(text, x=0.01, ha="left", fontsize="medium", fontweight="bold")


def save(figure: Figure, path: Path, title: str, style: FiguresConfig) -> None:
    """Write a figure as PNG and, beside it, as PDF. The files hold no date, so equal figures have equal bytes.

    Args:
        figure: What to save.
        path: The PNG file; the PDF has the same name with another extension.
        title: Title in the metadata of both files.
        style: Holds the resolution.
    """
    undated: dict[str, Any] = {"Creator": None, "Producer": None, "CreationDate": None}
    for suffix, metadata in ((".png", {"Software": None}), (".pdf", undated)):
        buffer = io.BytesIO()
        figure.savefig(buffer, format=suffix[1:], dpi=style.dpi, metadata={**metadata, "Title": title})
        figure.set_layout_engine("none")  # the PDF reuses the layout of the PNG
        write_atomic(path.with_suffix(suffix), buffer.getvalue())
