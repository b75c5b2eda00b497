"""Figures 4, 11, 13, 16, 19, 22: the RMSNorm factor and the contraction factor c around the transition."""

import numpy as np
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.labels import outcome, run_label
from collapse.figures.panels import layer_curves, log_axis, mark_transition, masked, step_axis, window
from collapse.figures.runs import Shown, one_run
from collapse.figures.style import FULL, INK, headline, panel_letters

ABOUT = "RMSNorm factor and contraction factor in the transition window"


def draw(shown: Shown, style: FiguresConfig) -> Figure:
    """(a) Attention RMSNorm factor, (b) attention c, (c) FFN RMSNorm factor, (d) FFN c; by layer."""
    run, row = shown
    near = window(run, row, style)
    figure = Figure(figsize=(FULL, 4.0), layout="constrained")
    panels = figure.subplots(2, 2, sharex=True, sharey="col").ravel()
    factor, contraction = near["rms_factor"], masked(near, "contraction", style)
    for ax, values, sublayer, symbol in (
        (panels[0], factor, "attention", r"$\sqrt{d}\,/\,\|y_1^l\|_2$"),
        (panels[1], contraction, "attention", r"$c(y_1^l, \alpha_1^l)$"),
        (panels[2], factor, "ffn", r"$\sqrt{d}\,/\,\|y_2^l\|_2$"),
        (panels[3], contraction, "ffn", r"$c(y_2^l, \alpha_2^l)$"),
    ):
        layer_curves(ax, values.sel(sublayer=sublayer), style)
        log_axis(ax, values)
        step_axis(ax, [near], label=sublayer == "ffn")
        ax.set_ylabel(symbol)
        if values is contraction and np.isfinite(values).any():
            ax.axhline(1.0, color=INK, linewidth=0.6, zorder=1.5)
        mark_transition(ax, row)
    panel_letters(panels, ("attention", "attention", "FFN", "FFN"))
    handles, labels = panels[0].get_legend_handles_labels()
    figure.legend(handles, labels, title="layer", loc="outside right center")
    headline(figure, f"{run_label(row)}: {outcome(row)}")
    return figure


if __name__ == "__main__":
    one_run("contraction", ABOUT, draw)
