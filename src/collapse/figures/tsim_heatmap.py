"""Token diversity over step and depth, one map per run."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import EVERY_RUN, Family
from collapse.figures.labels import outcome, run_label
from collapse.figures.panels import depth_map, mark_transition, step_axis
from collapse.figures.runs import Shown
from collapse.figures.style import COLUMN

FLOOR = 1e-6
"""Diversities below look like this one."""


def draw(style: FiguresConfig, *, run: Sequence[Shown]) -> Figure:
    """1 - token similarity of X_k, the input of every sublayer; dark means collapsed."""
    [(data, row)] = run
    figure = Figure(figsize=(COLUMN, 2.3), layout="constrained")
    ax = figure.subplots()
    picture = depth_map(ax, data["tdiv_x"], FLOOR, 1.0, style)
    step_axis(ax, [data])
    mark_transition(ax, row, shade=False)
    bar = figure.colorbar(picture, ax=ax, extend="min", aspect=25, pad=0.02)
    bar.set_label("1 − token similarity")
    bar.outline.set_visible(False)
    ax.set_title(f"{run_label(row)}:\n{outcome(row)}", fontsize="small")
    return figure


FAMILY = Family(
    title="Token similarity over step and depth",
    category=EVERY_RUN,
    caption=(
        "1 − token similarity of every sublayer's input over the run, on a logarithmic scale: dark means collapsed. "
        "Each layer has two rows, attention below its FFN. Dashed: the transition step."
    ),
    draw=draw,
)
