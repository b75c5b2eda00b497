"""Figure 9: how far the mean attention matrix is from the prefix average C_n, by layer (Appendix F.2)."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.stack import DASHED, initializations_label, layer_axis, say_if_empty, with_error
from collapse.figures.style import BLUE, FULL, INK, VERMILION, headline


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """Relative Frobenius error in percent: over all initializations, over each alone, and with infinitely many."""
    layers, seeds = data["layer"].values, data.sizes["seed"]
    few = "o" if len(layers) == 1 else None
    figure = Figure(figsize=(FULL, 2.8), layout="constrained")
    ax = figure.subplots()
    single = 100 * data["prefix_error_seed"].transpose("layer", "seed").values
    if seeds > 1:
        faint = ax.plot(layers, single, color=INK, alpha=0.2, linewidth=0.5, marker=few and ".", zorder=1)
        faint[0].set_label("each initialization alone")
    error = 100 * data["prefix_error_se"].values
    with_error(ax, layers, 100 * data["prefix_error"].values, error, color=BLUE, label=f"mean of {seeds} and the heads"
               if seeds > 1 else "mean of the heads")  # fmt: skip
    bias = 100 * data["prefix_bias"].values
    if np.isfinite(bias).any():
        ax.plot(layers, bias, color=VERMILION, linestyle=DASHED, marker=few, label="without sampling noise")
    layer_axis(ax, layers)
    ax.set(ylabel=r"$\|\mathrm{E}[P^l] - C_n\|_F\,/\,\|C_n\|_F$ (%)", ylim=(0, None))
    say_if_empty(ax)
    figure.legend(loc="outside right center")
    headline(figure, initializations_label(data, bool(np.isfinite(error).any())))
    return figure


FAMILY = Family(
    title="Mean attention matrix and the prefix average",
    category=AT_INITIALIZATION,
    caption=(
        "Relative Frobenius distance of the mean attention matrix from the prefix average Cₙ at initialization, "
        "Post-Norm, by layer (Appendix F.2). Blue: mean over all initializations and heads, ± 2 standard errors. "
        "Grey: mean over the heads of each initialization alone. Dashed: the distance that would remain with "
        "infinitely many initializations."
    ),
    in_paper=(
        "over 32 initializations the error is about 2.7 % in the first layer and 1.2 % in layer 48, 2.1 % on average"
    ),
    draw=draw,
)
