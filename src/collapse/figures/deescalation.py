"""Figure 2: token similarity over depth at initialization with P - a C_n in place of P."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.labels import PLACEMENTS
from collapse.figures.panels import log_axis
from collapse.figures.stack import (
    grid,
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
from collapse.figures.style import FULL, headline, ordered_colours, panel_letters


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """One panel per placement, one colour per a; at the variance factor nearest to 1 at which most a were measured."""
    data = one_input(data)
    scale = most_measured(data["tsim_y"], "variance_scale", "deescalation", 1.0)
    data = data.sel(variance_scale=scale)
    amounts = sorted(measured(data["tsim_y"], "deescalation"))
    placements = list(data["placement"].values)
    colours = ordered_colours(style, len(amounts))
    figure = Figure(figsize=(FULL, 2.7), layout="constrained")
    axes = grid(figure, 1, len(placements), sharey=True)[0]
    depth, similarity = over_depth(data, "tsim_y")
    for ax, placement in zip(axes, placements, strict=True):
        for a, colour in zip(amounts, colours, strict=True):
            mean_and_band(ax, depth, similarity.sel(placement=placement, deescalation=a), f"{a:g}", color=colour)
        layer_axis(ax, depth, "layer (0: input)")
        say_if_empty(ax)
    log_axis(axes[0], np.asarray(similarity.mean("seed")))
    axes[0].set_ylabel("token similarity")
    panel_letters(axes, [f"{PLACEMENTS[placement]}, variance {times(scale)}" for placement in placements])
    figure.legend(handles=swatches([f"{a:g}" for a in amounts], colours), title="$a$ in\n$P - a\\,C_n$",
                  loc="outside right center")  # fmt: skip
    headline(figure, setting_label(data))
    return figure


FAMILY = Family(
    title="Token similarity over depth without the prefix average",
    category=AT_INITIALIZATION,
    caption=(
        "Token similarity of each layer's output at initialization, with P − a Cₙ in place of the attention matrix P, "
        "for several a (Corollary 3.3); Cₙ averages over each causal prefix. Mean and band of ± 1 standard deviation "
        "over seeds."
    ),
    in_paper="as a goes from 0 to 1 growth is suppressed throughout, and a = 1 removes most of it",
    draw=draw,
)
