"""Figure 1: what a sublayer does to token similarity at initialization, measured and by the theorems."""

import xarray as xr
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.labels import PLACEMENTS
from collapse.figures.stack import (
    DASHED,
    SUBLAYERS,
    few_colours,
    grid,
    key,
    layer_axis,
    mean_and_band,
    measured,
    most_measured,
    one_input,
    say_if_empty,
    setting_label,
    swatches,
    times,
)
from collapse.figures.style import FULL, INK, headline, panel_letters


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """Rows: placements. Columns: attention, FFN. Colours: variance factors. Solid: measured, dashed: closed form."""
    data = one_input(data)
    a = most_measured(data["increment"], "deescalation", "variance_scale", 0.0)
    data = data.sel(deescalation=a)
    scales = measured(data["increment"], "variance_scale")
    placements, layers = list(data["placement"].values), data["layer"].values
    colours = few_colours(style, len(scales))
    figure = Figure(figsize=(FULL, 0.7 + 1.75 * len(placements)), layout="constrained")
    axes = grid(figure, len(placements), 2, sharex=True)
    for ax, (placement, sublayer) in zip(
        axes.flat, ((placement, sublayer) for placement in placements for sublayer in SUBLAYERS), strict=True
    ):
        shown = data.sel(placement=placement, sublayer=sublayer)
        for scale, colour in zip(scales, colours, strict=True):
            one = shown.sel(variance_scale=scale)
            mean_and_band(ax, layers, one["increment"], times(scale), color=colour)
            theorem = one["increment_predicted"].mean("seed").values
            ax.plot(layers, theorem, color=colour, linestyle=DASHED, marker="d" if len(layers) == 1 else None)
        layer_axis(ax, layers, "layer" if placement == placements[-1] else None)
        say_if_empty(ax)
        ax.axhline(0.0, color=INK, linewidth=0.6, zorder=1)
    for ax in axes[:, 0]:
        ax.set_ylabel(r"$\mathrm{t_{sim}}(Y_k) - \mathrm{t_{sim}}(X_k)$")
    titles = [f"{PLACEMENTS[placement]}, {sublayer}" for placement in placements for sublayer in SUBLAYERS.values()]
    panel_letters(list(axes.flat), titles)
    handles = [key("measured"), key("theorem", linestyle=DASHED)]
    figure.legend(handles=[*swatches(list(map(times, scales)), colours), *handles], title="variance",
                  loc="outside right center")  # fmt: skip
    headline(figure, setting_label(data))
    return figure


FAMILY = Family(
    title="One-step increments of token similarity at initialization",
    category=AT_INITIALIZATION,
    caption=(
        "Change of token similarity by one sublayer at initialization. Rows: Post-Norm and Pre-Norm. Columns: "
        "attention and FFN, each with its own scale. Colours: the factor on the variance of the sublayer matrices. "
        "Solid: measured, mean and band of ± 1 standard deviation over seeds. Dashed: Theorem 3.2 (attention) and "
        "Theorem 3.4 (FFN) at the measured token similarity of the sublayer's input."
    ),
    in_paper=(
        "attention's increment is positive, its sign and scale captured by the theorem with a visible mismatch; the "
        "FFN's is negative and much smaller; Post-Norm rises quickly and saturates, Pre-Norm grows more gradually"
    ),
    draw=draw,
)
