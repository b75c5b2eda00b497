"""Figure 8: how far E[P X X^T P^T] is from the product of expectations, by layer (Appendix F.1)."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.stack import initializations_label, layer_axis, say_if_empty, with_error
from collapse.figures.style import BLUE, FULL, headline, panel_letters


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """(a) delta_attn, (b) delta_proj, relative Frobenius errors in percent."""
    layers = data["layer"].values
    figure = Figure(figsize=(FULL, 2.5), layout="constrained")
    axes = figure.subplots(1, 2)
    for ax, name, symbol in ((axes[0], "delta_attn", "attn"), (axes[1], "delta_proj", "proj")):
        with_error(ax, layers, 100 * data[name].values, 100 * data[f"{name}_se"].values, color=BLUE)
        layer_axis(ax, layers)
        ax.set(ylabel=rf"$\delta^l_{{\mathrm{{{symbol}}}}}$ (%)", ylim=(0, None))
        say_if_empty(ax)
    panel_letters(axes, (r"second moment $P X X^\top P^\top$", "its projection onto the mean token"))
    headline(figure, initializations_label(data, bool(np.isfinite(data["delta_attn_se"]).any())))
    return figure


FAMILY = Family(
    title="Product of expectations in place of the attention second moment",
    category=AT_INITIALIZATION,
    caption=(
        "Relative Frobenius error of E[P] E[X Xᵀ] E[Pᵀ] in place of E[P X Xᵀ Pᵀ] at initialization, Post-Norm, by "
        "layer: (a) of the matrices, (b) of their projections onto the mean token (Appendix F.1). Expectations are "
        "over initializations and heads; bands are ± 2 standard errors."
    ),
    in_paper="both errors are small in all 48 layers",
    draw=draw,
)
