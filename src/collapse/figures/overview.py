"""All runs at a glance, and the collapsing run over depth."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import OVERVIEW, Family
from collapse.figures.labels import PLACEMENTS, outcome, run_label
from collapse.figures.panels import curve, depth_map, mark_transition, smooth, step_axis
from collapse.figures.runs import Shown
from collapse.figures.style import BLUE, FULL, GREEN, INK, PURPLE, VERMILION, headline, panel_letters

DIVERSITY_FLOOR = 1e-6
GRADIENT_DECADES = 8
COLOURS = {("post", True): VERMILION, ("post", False): BLUE, ("pre", True): PURPLE, ("pre", False): GREEN}
"""(placement, whether the run collapsed) to colour."""


def draw(style: FiguresConfig, *, runs: Sequence[Shown], collapsing: Sequence[Shown]) -> Figure:
    """(a) Loss and (b) last-layer token similarity of the runs on the stream; (c, d) the collapsing run over depth.

    (c) shows 1 - token similarity of every sublayer's input, (d) the norm of the gradient that arrives there.
    """
    figure = Figure(figsize=(FULL, 4.6), layout="constrained")
    (loss, tsim), (similarity, gradient) = figure.subplots(2, 2)
    [thick] = collapsing
    data, row = thick
    _runs(loss, tsim, [run for run in runs if run.row["scope"] == "stream"], thick)
    grad = data["grad_x"]
    arrived = grad.values[grad.values > 0]
    top = float(np.quantile(arrived, 0.999)) if arrived.size else 1.0
    for ax, values, floor, high, label in (
        (similarity, data["tdiv_x"], DIVERSITY_FLOOR, 1.0, "1 − token similarity"),
        (gradient, grad, top * 10.0**-GRADIENT_DECADES, top, r"$\|\partial\mathcal{L}/\partial X_k^l\|_F$ (nats)"),
    ):
        picture = depth_map(ax, values, floor, high, style)
        step_axis(ax, [data])
        mark_transition(ax, row, shade=False)
        bar = figure.colorbar(picture, ax=ax, extend="min", aspect=18, pad=0.02)
        bar.set_label(label)
        bar.outline.set_visible(False)
    count = sum(run.row["collapsed"] for run in runs)
    panel_letters(
        (loss, tsim, similarity, gradient),
        ("training loss", "last-layer token similarity", "token diversity by layer", "gradient norm by layer"),
    )
    headline(figure, f"{count} of {len(runs)} runs collapse; (c, d) {run_label(row)}: {outcome(row)}")
    return figure


def _runs(loss: Axes, tsim: Axes, runs: Sequence[Shown], thick: Shown) -> None:
    """Thin curves coloured by placement and outcome; over them, thick and dark, the run of (c, d)."""

    def draw_run(data: xr.Dataset, **look: Any) -> None:
        for ax, name in ((loss, "loss"), (tsim, "tsim_final")):
            steps = data["step"].values
            curve(ax, steps, smooth(steps, data[name].values), **look)

    for (placement, collapsed), colour in COLOURS.items():
        group = [data for data, row in runs if (row["placement"], row["collapsed"]) == (placement, collapsed)]
        label: str | None = f"{PLACEMENTS[placement]}, {'collapsed' if collapsed else 'not collapsed'} ({len(group)})"
        for data in group:
            draw_run(data, color=colour, linewidth=0.8, alpha=0.7, label=label)
            label = None
    draw_run(thick.data, color=INK, linewidth=1.7, zorder=3, label="the run of (c, d)")
    for reference in {round(row["freq_loss"], 3) for _, row in [*runs, thick]}:
        loss.axhline(reference, color=INK, linestyle=":", linewidth=1.0)
    loss.plot([], [], color=INK, linestyle=":", linewidth=1.0, label="frequency loss")
    loss.set_ylabel("loss (nats)")
    tsim.set(ylabel="token similarity", ylim=(-0.03, 1.03))
    for ax in (loss, tsim):
        step_axis(ax, [data for data, _ in [*runs, thick]])
    loss.legend(fontsize="small", labelspacing=0.25)


FAMILY = Family(
    title="Overview of the runs",
    category=OVERVIEW,
    caption=(
        "(a) Training loss and (b) token similarity of the last layer, for all runs on the text stream; running means "
        "over nine steps. The thick dark curve is the run of (c) and (d). (c) 1 − token similarity of every sublayer's "
        "input: dark means collapsed. (d) Norm of the gradient that arrives there. Each layer has two rows, attention "
        "below its FFN."
    ),
    draw=draw,
)
