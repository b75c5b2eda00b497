"""Figures 5, 14, 17, 20: gradient norms by layer, a curve a step, over the transition."""

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from collapse.config.figures import FiguresConfig
from collapse.figures.labels import Row, outcome, run_label
from collapse.figures.panels import log_axis
from collapse.figures.runs import Shown, one_run
from collapse.figures.style import FULL, headline, ordered_colours, panel_letters

ABOUT = "Gradient norms by layer over the transition"
CURVES = 11
"""As many as the paper's ten steps have."""


def steps_shown(steps: NDArray[np.int_], row: Row) -> NDArray[np.int_]:
    """Eleven steps, evenly spread over the transition, or from its first step on where it took fewer than ten.

    Over the whole run where there was no transition; the recorded steps next to them, fewer where there are fewer.
    """
    first, last = float(steps[0]), float(steps[-1])
    if row["collapsed"]:
        first = row["transition_step"]
        last = min(first + max(row["transition_length"], CURVES - 1), last)
    wanted = first + np.linspace(0, last - first, CURVES).round()
    inside = steps[(steps >= first) & (steps <= last)]
    chosen: NDArray[np.int_] = inside[np.unique(np.abs(inside - wanted[:, None]).argmin(axis=1))]
    return chosen


def draw(shown: Shown, style: FiguresConfig) -> Figure:
    """(a) Norm of the gradient that arrives at each layer's input, (b) norm of each layer's parameter gradients."""
    run, row = shown
    figure = Figure(figsize=(FULL, 2.7), layout="constrained")
    axes = figure.subplots(1, 2)
    steps = steps_shown(run["step"].values, row)
    chosen = run.sel(step=steps)
    arriving = chosen["grad_x"].sel(sublayer="attention")
    parameters = (chosen["param_grad"] ** 2).sum("sublayer", skipna=False) ** 0.5
    colours = ordered_colours(style, len(steps))
    for ax, values, symbol in (
        (axes[0], arriving, r"$\|\partial\mathcal{L}/\partial X_1^l\|_F$"),
        (axes[1], parameters, r"$\|\partial\mathcal{L}/\partial W^l\|_F$"),
    ):
        for step, colour in zip(steps, colours, strict=True):
            ax.plot(values["layer"].values, values.sel(step=step).values, color=colour, marker=".", markersize=3)
        log_axis(ax, values)
        ax.set(xlabel=r"layer $l$", ylabel=f"{symbol} (nats)")
        ax.xaxis.set_major_locator(MaxNLocator(nbins=8, integer=True, min_n_ticks=1))
    panel_letters(axes, ("gradient that reaches the layer", "gradient of its parameters"))
    scale = ScalarMappable(BoundaryNorm(np.arange(len(steps) + 1) - 0.5, len(steps)), ListedColormap(colours))
    bar = figure.colorbar(scale, ax=axes, ticks=range(len(steps)), aspect=25)
    bar.ax.set_yticklabels([str(step) for step in steps])
    bar.ax.tick_params(length=0, which="both")
    bar.ax.set_title("step", fontsize="small", loc="left")
    bar.outline.set_visible(False)
    headline(figure, f"{run_label(row)}: {outcome(row)}")
    return figure


if __name__ == "__main__":
    one_run("gradient_norms", ABOUT, draw)
