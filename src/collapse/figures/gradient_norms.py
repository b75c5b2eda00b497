"""Figures 5, 14, 17, 20: gradient norms by layer over the transition, one curve per step."""

from collections.abc import Sequence

import numpy as np
from matplotlib.cm import ScalarMappable
from matplotlib.colors import BoundaryNorm, ListedColormap
from matplotlib.figure import Figure
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from collapse.config.figures import FiguresConfig
from collapse.figures.family import RUNS, Family
from collapse.figures.labels import Row, outcome, run_label
from collapse.figures.panels import log_axis
from collapse.figures.runs import Shown
from collapse.figures.style import FULL, headline, ordered_colours, panel_letters

CURVES = 11
"""The paper's ten steps, both ends included."""


def steps_shown(steps: NDArray[np.int_], row: Row) -> NDArray[np.int_]:
    """Eleven steps, evenly spread over the transition, or over the whole run if it has none.

    A transition of fewer than ten steps counts as ten. Steps that were not recorded give way to their neighbours.
    """
    first, last = float(steps[0]), float(steps[-1])
    if row["collapsed"]:
        first = row["transition_step"]
        last = min(first + max(row["transition_length"], CURVES - 1), last)
    wanted = first + np.linspace(0, last - first, CURVES).round()
    inside = steps[(steps >= first) & (steps <= last)]
    chosen: NDArray[np.int_] = inside[np.unique(np.abs(inside - wanted[:, None]).argmin(axis=1))]
    return chosen


def draw(style: FiguresConfig, *, run: Sequence[Shown]) -> Figure:
    """(a) Norm of the gradient that arrives at each layer's input, (b) norm of each layer's parameter gradients."""
    [(data, row)] = run
    figure = Figure(figsize=(FULL, 2.7), layout="constrained")
    axes = figure.subplots(1, 2)
    steps = steps_shown(data["step"].values, row)
    chosen = data.sel(step=steps)
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


FAMILY = Family(
    title="Gradient norms by layer over the transition",
    category=RUNS,
    caption=(
        "(a) Norm of the gradient that arrives at each layer's input, (b) norm of the gradient of each layer's "
        "parameters before clipping. One curve per step, for up to eleven steps spread over the transition, or over "
        "the whole run if it has none."
    ),
    in_paper="gradients of early layers drop by orders of magnitude, those of late layers change little",
    draw=draw,
)
