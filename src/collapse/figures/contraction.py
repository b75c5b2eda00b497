"""Figures 4, 11, 13, 16, 19, 22: the RMSNorm factor and the contraction factor c around the transition."""

from collections.abc import Sequence

import numpy as np
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import RUNS, Family
from collapse.figures.labels import outcome, run_label
from collapse.figures.panels import MASKED, layer_curves, log_axis, mark_transition, masked, step_axis, window
from collapse.figures.runs import Shown
from collapse.figures.style import FULL, INK, headline, panel_letters


def draw(style: FiguresConfig, *, run: Sequence[Shown]) -> Figure:
    """Attention: (a) RMSNorm factor, (b) c. FFN: (c) RMSNorm factor, (d) c. One curve per layer."""
    [(data, row)] = run
    near = window(data, row, style)
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


FAMILY = Family(
    title="RMSNorm factor and contraction factor in the transition window",
    category=RUNS,
    caption=(
        "(a, c) RMSNorm factor √d/‖y‖ and (b, d) contraction factor c = α √d/‖y‖ of the attention and FFN sublayers, "
        "by layer. A sublayer with c < 1 shrinks the gradient. "
        f"c is left out {MASKED}. Dashed: the transition step; blue before it, red after it. A run without a "
        "transition is shown from its first step to its last."
    ),
    in_paper=(
        "√d/‖y‖ and with it c drop sharply after the transition begins, in most sublayers below 1; attention of layer "
        "1 is the exception"
    ),
    draw=draw,
)
