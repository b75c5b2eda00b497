"""The whole story in one picture: what all runs did, and how the collapsing one did it."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.errors import run_stage
from collapse.figures.command import draw_and_save
from collapse.figures.labels import PLACEMENTS, outcome, run_label
from collapse.figures.panels import curve, depth_map, mark_transition, smooth, step_axis
from collapse.figures.runs import Shown, run_parser, show
from collapse.figures.style import BLUE, FULL, GREEN, INK, PURPLE, VERMILION, headline, panel_letters

ABOUT = "Overview of the runs"
DIVERSITY_FLOOR = 1e-6
GRADIENT_DECADES = 8
COLOURS = {("post", True): VERMILION, ("post", False): BLUE, ("pre", True): PURPLE, ("pre", False): GREEN}
"""By placement, and whether the run collapsed."""


def draw(shown: Sequence[Shown], collapsing: Shown, style: FiguresConfig) -> Figure:
    """(a) Loss and (b) last-layer token similarity of the runs on the stream; (c, d) the collapsing run over depth.

    (c) is 1 - token similarity of every sublayer's input, (d) the norm of the gradient that arrives there.
    """
    figure = Figure(figsize=(FULL, 4.6), layout="constrained")
    (loss, tsim), (similarity, gradient) = figure.subplots(2, 2)
    run, row = collapsing
    _runs(loss, tsim, [one for one in shown if one[1]["scope"] == "stream"], collapsing)
    grad = run["grad_x"]
    arrived = grad.values[grad.values > 0]
    top = float(np.quantile(arrived, 0.999)) if arrived.size else 1.0
    for ax, values, floor, high, label in (
        (similarity, run["tdiv_x"], DIVERSITY_FLOOR, 1.0, "1 − token similarity"),
        (gradient, grad, top * 10.0**-GRADIENT_DECADES, top, r"$\|\partial\mathcal{L}/\partial X_k^l\|_F$ (nats)"),
    ):
        picture = depth_map(ax, values, floor, high, style)
        step_axis(ax, [run])
        mark_transition(ax, row, shade=False)
        bar = figure.colorbar(picture, ax=ax, extend="min", aspect=18, pad=0.02)
        bar.set_label(label)
        bar.outline.set_visible(False)
    count = sum(one[1]["collapsed"] for one in shown)
    panel_letters(
        (loss, tsim, similarity, gradient),
        ("training loss", "last-layer token similarity", "token diversity by layer", "gradient norm by layer"),
    )
    headline(figure, f"{count} of {len(shown)} runs collapse; (c, d) {run_label(row)}: {outcome(row)}")
    return figure


def _runs(loss: Axes, tsim: Axes, shown: Sequence[Shown], collapsing: Shown) -> None:
    """Thin curves coloured by what became of the runs; over them, thick and dark, that of (c, d)."""

    def draw_run(run: xr.Dataset, **look: Any) -> None:
        for ax, name in ((loss, "loss"), (tsim, "tsim_final")):
            steps = run["step"].values
            curve(ax, steps, smooth(steps, run[name].values), **look)

    for (placement, collapsed), colour in COLOURS.items():
        group = [run for run, row in shown if (row["placement"], row["collapsed"]) == (placement, collapsed)]
        label: str | None = f"{PLACEMENTS[placement]}, {'collapsed' if collapsed else 'not collapsed'} ({len(group)})"
        for run in group:
            draw_run(run, color=colour, linewidth=0.8, alpha=0.7, label=label)
            label = None
    draw_run(collapsing[0], color=INK, linewidth=1.7, zorder=3, label="the run of (c, d)")
    for reference in {round(row["freq_loss"], 3) for _, row in [*shown, collapsing]}:
        loss.axhline(reference, color=INK, linestyle=":", linewidth=1.0)
    loss.plot([], [], color=INK, linestyle=":", linewidth=1.0, label="frequency loss")
    loss.set_ylabel("loss (nats)")
    tsim.set(ylabel="token similarity", ylim=(-0.03, 1.03))
    for ax in (loss, tsim):
        step_axis(ax, [run for run, _ in [*shown, collapsing]])
    loss.legend(fontsize="small", labelspacing=0.25)


def _main() -> None:
    options = run_parser("overview", ABOUT)
    options.add_argument("--runs", required=True, nargs="+", type=Path, help="folders of all finished runs")
    options.add_argument("--collapsing", required=True, type=Path, help="folder of the run shown over depth")
    chosen = options.parse_args()
    shown = [show(path, chosen) for path in chosen.runs]
    collapsing = show(chosen.collapsing, chosen)
    draw_and_save(chosen, ABOUT, lambda style: draw(shown, collapsing, style))


if __name__ == "__main__":
    run_stage(_main)
