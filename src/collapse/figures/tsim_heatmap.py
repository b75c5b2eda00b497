"""Token diversity over step and depth, a map a run."""

from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.labels import outcome, run_label
from collapse.figures.panels import depth_map, mark_transition, step_axis
from collapse.figures.runs import Shown, one_run
from collapse.figures.style import COLUMN

ABOUT = "Token similarity over step and depth"
FLOOR = 1e-6
"""Diversity shown darkest."""


def draw(shown: Shown, style: FiguresConfig) -> Figure:
    """1 - token similarity of X_k, the input of every sublayer; dark is collapsed."""
    run, row = shown
    figure = Figure(figsize=(COLUMN, 2.3), layout="constrained")
    ax = figure.subplots()
    picture = depth_map(ax, run["tdiv_x"], FLOOR, 1.0, style)
    step_axis(ax, [run])
    mark_transition(ax, row, shade=False)
    bar = figure.colorbar(picture, ax=ax, extend="min", aspect=25, pad=0.02)
    bar.set_label("1 − token similarity")
    bar.outline.set_visible(False)
    ax.set_title(f"{run_label(row)}:\n{outcome(row)}", fontsize="small")
    return figure


if __name__ == "__main__":
    one_run("tsim_heatmap", ABOUT, draw)
