"""Token similarity over depth at initialization, measured and by iterating the theorems from the stack's input."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.labels import PLACEMENTS
from collapse.figures.panels import log_axis
from collapse.figures.stack import (
    DASHED,
    few_colours,
    grid,
    key,
    layer_axis,
    mean_and_band,
    measured,
    most_measured,
    one_input,
    over_depth,
    say_if_empty,
    setting_label,
    swatches,
    times,
)
from collapse.figures.style import FULL, headline, panel_letters


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """One panel per placement, one colour per variance factor; solid: measured, dashed: the recursion."""
    data = one_input(data)
    a = most_measured(data["tsim_y"], "deescalation", "variance_scale", 0.0)
    data = data.sel(deescalation=a)
    scales = measured(data["tsim_y"], "variance_scale")
    placements = list(data["placement"].values)
    colours = few_colours(style, len(scales))
    figure = Figure(figsize=(FULL, 2.7), layout="constrained")
    axes = grid(figure, 1, len(placements), sharey=True)[0]
    depth, similarity = over_depth(data, "tsim_y")
    _, recursion = over_depth(data, "tsim_y_recursion")
    for ax, placement in zip(axes, placements, strict=True):
        for scale, colour in zip(scales, colours, strict=True):
            at = {"placement": placement, "variance_scale": scale}
            mean_and_band(ax, depth, similarity.sel(at), times(scale), color=colour)
            ax.plot(depth, recursion.sel(at).mean("seed").values, color=colour, linestyle=DASHED)
        layer_axis(ax, depth, "layer (0: input)")
        say_if_empty(ax)
    log_axis(axes[0], np.asarray(similarity.mean("seed")))
    axes[0].set_ylabel("token similarity")
    panel_letters(axes, [PLACEMENTS[placement] for placement in placements])
    handles = [key("measured"), key("recursion", linestyle=DASHED)]
    figure.legend(handles=[*swatches(list(map(times, scales)), colours), *handles], title="variance",
                  loc="outside right center")  # fmt: skip
    headline(figure, setting_label(data))
    return figure


FAMILY = Family(
    title="Token similarity over depth and the depth recursion",
    category=AT_INITIALIZATION,
    caption=(
        "Token similarity of each layer's output at initialization. Colours: the factor on the variance of the "
        "sublayer matrices. Solid: measured, mean and band of ± 1 standard deviation over seeds. Dashed: Theorems 3.2 "
        "and 3.4, iterated from the token similarity of the input alone."
    ),
    draw=draw,
)
