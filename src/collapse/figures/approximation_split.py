"""The gap between attention's increment and its closed form, split into the three approximations of the formula."""

import math
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from collapse.analysis.uncertainty import half_width, share_of_gap
from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.labels import PLACEMENTS
from collapse.figures.stack import grid, key, layer_axis, say_if_empty, stack_label, times
from collapse.figures.style import BLUE, FULL, GREEN, INK, VERMILION, headline, panel_letters
from collapse.store.dataset import spec_of

GAPS = {
    "gap_prefix": ("prefix average", BLUE, "o"),
    "gap_ratio": ("ratio of expectations", GREEN, "s"),
    "gap_equal": ("equal correlation", VERMILION, "^"),
}
"""Variable to (what is approximated, colour, marker)."""
COLUMNS = 3
"""Panels per row at most; further variance factors go to a new row."""


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """One row per placement, one panel per variance factor: each gap by layer, and their sum, measured - formula."""
    placements, scales = list(data["placement"].values), list(data["variance_scale"].values)
    columns = min(COLUMNS, len(scales))
    rows = len(placements) * math.ceil(len(scales) / columns)
    figure = Figure(figsize=(FULL, 1.1 + 1.8 * rows), layout="constrained")
    axes = grid(figure, rows, columns)
    settings = [
        [(placement, scale) for scale in scales[first : first + columns]]
        for placement in placements
        for first in range(0, len(scales), columns)
    ]
    for row, in_row in enumerate(settings):
        for ax, (placement, scale) in zip(axes[row], in_row, strict=False):
            _gaps(ax, data.sel(placement=placement, variance_scale=scale))
            layer_axis(ax, data["layer"].values, "layer" if row == rows - 1 else None)
            say_if_empty(ax)
            ax.axhline(0, color=INK, linewidth=0.6, zorder=1)
        for ax in axes[row, len(in_row) :]:
            ax.remove()
        axes[row, 0].set_ylabel("gap in token similarity")
    titles = [f"{PLACEMENTS[placement]}, variance {times(scale)}" for in_row in settings for placement, scale in in_row]
    panel_letters(figure.axes, titles)
    handles = [key(label, color=colour, marker=marker, markersize=3.5) for label, colour, marker in GAPS.values()]
    figure.legend(handles=[*handles, key("sum: measured − formula", linewidth=2.2, alpha=0.45)], ncols=4,
                  loc="outside lower center")  # fmt: skip
    networks = data.sizes["seed"]
    draws = f"± 2 s.e. over {spec_of(data)['weight_draws']} draws of the weights"
    headline(figure, f"Text; {stack_label(data)}; {networks} network{'s' if networks > 1 else ''}, {draws}")
    return figure


def _gaps(ax: Axes, data: xr.Dataset) -> None:
    """The gaps of one setting. In the corner: the largest by mean size over the layers, and its share of all three.

    The claims state the same share and uncertainty. With too few networks to know the uncertainty, the corner is empty.
    """
    layers, networks = data["layer"].values, data.sizes["seed"]
    total = (data["increment_true"] - data["increment_formula"]).mean("seed").values
    ax.plot(layers, total, color=INK, linewidth=2.2, alpha=0.45, marker="o" if len(layers) == 1 else None, zorder=1.5)
    shares = {}
    for name, (label, colour, marker) in GAPS.items():
        mean = data[name].mean("seed").values
        look: dict[str, Any] = {"color": colour, "marker": marker, "markersize": 3}
        if f"{name}_se" in data:
            error = np.sqrt((data[f"{name}_se"].values ** 2).sum(data[name].get_axis_num("seed"))) / networks
            ax.errorbar(layers, mean, 2 * error, elinewidth=0.8, capsize=1.5, **look)
        else:
            ax.plot(layers, mean, **look)
        found = share_of_gap(data, name)
        shares[label] = 100 * float(np.asarray(found.values)), 100 * float(half_width(found))
    largest, (share, error) = max(shares.items(), key=lambda item: item[1])
    if math.isfinite(error):
        ax.text(0.98, 0.97, f"{largest}: {share:.0f} ± {error:.0f} %", ha="right", va="top",
                fontsize="small", transform=ax.transAxes)  # fmt: skip
        ax.margins(y=0.18)


FAMILY = Family(
    title="Approximations behind the attention increment",
    category=AT_INITIALIZATION,
    caption=(
        "Why the formula for attention's increment (Theorem 3.2) differs from the measured increment, split into the "
        "formula's three approximations, made one after the other: Cₙ in place of P; the ratio of expectations in "
        "place of the expectation of the ratio; equally correlated tokens in place of the actual Gram matrix. The "
        "three gaps add up to the grey curve. In the corner, if three or more networks were measured: the gap that is "
        "largest by mean size over the layers, and its share of all three ± the half-width of its 95 % interval."
    ),
    draw=draw,
)
