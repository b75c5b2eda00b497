"""Figure 6: training loss against the frequency loss of the labels that the run was trained on."""

from collections.abc import Sequence

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import RUNS, Family
from collapse.figures.labels import SCOPES, learning_rate
from collapse.figures.panels import curve, smooth, step_axis
from collapse.figures.runs import Shown
from collapse.figures.style import BLUE, FULL, GREEN, INK, PURPLE, ordered_colours, panel_letters

_MARKERS = "os^Dv"
_MARKERS_PER_CURVE = 6
_SCOPE_COLOURS = {"stream": BLUE, "batch": GREEN, "sequence": PURPLE}


def draw(style: FiguresConfig, *, no_warmup: Sequence[Shown] = (), warmup: Sequence[Shown] = ()) -> Figure:
    """Left: runs without warmup by the scope of their data. Right: warmed-up runs by learning rate.

    Thin lines are the loss of each step, thick lines its running mean over nine steps. The curves' markers stand at
    different steps, so that curves that coincide are all visible. Dotted lines are the frequency losses of the labels
    in each run's own scope.
    """
    figure = Figure(figsize=(FULL, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    scopes = [(run, _SCOPE_COLOURS[run.row["scope"]], SCOPES[run.row["scope"]] or "whole stream") for run in no_warmup]
    _losses(left, scopes)
    by_rate = sorted(warmup, key=lambda run: (run.row["lr"], run.row["seed"]))
    colours = ordered_colours(style, len(by_rate))
    _losses(
        right,
        [(run, colour, f"lr {learning_rate(run.row['lr'])}") for run, colour in zip(by_rate, colours, strict=True)],
    )
    panel_letters((left, right), ("no warmup", "with warmup"))
    return figure


def _losses(ax: Axes, curves: Sequence[tuple[Shown, object, str]]) -> None:
    one_reference = len({round(row["freq_loss"], 3) for (_, row), _, _ in curves}) == 1
    for index, ((data, row), colour, label) in enumerate(curves):
        steps, loss = data["step"].values, data["loss"].values
        curve(ax, steps, loss, color=colour, alpha=0.25, linewidth=0.6, zorder=1.8)
        period = max(1, len(steps) // _MARKERS_PER_CURVE)
        curve(ax, steps, smooth(steps, loss), color=colour)
        ax.plot(
            *(values[index * period // len(curves) :: period] for values in (steps, smooth(steps, loss))),
            color=colour,
            label=label,
            linestyle="none",
            marker=_MARKERS[index % len(_MARKERS)],
            markersize=4.5,
            markeredgecolor="white",
            markeredgewidth=0.5,
            zorder=4,
        )
        if index == 0 or not one_reference:
            ax.axhline(row["freq_loss"], color=INK if one_reference else colour, linestyle=":", linewidth=1.2, zorder=3)
    ax.set_ylabel("loss (nats)")
    if curves:
        step_axis(ax, [data for (data, _), _, _ in curves])
        ax.plot([], [], color=INK, linestyle=":", linewidth=1.2, label="frequency loss")
        ax.legend(fontsize="small", labelspacing=0.3)
    else:
        ax.text(0.5, 0.5, "no such run in the grid", ha="center", transform=ax.transAxes)
        ax.set(xticks=[], yticks=[])


FAMILY = Family(
    title="Training loss and frequency loss",
    category=RUNS,
    caption=(
        "Thin: training loss; thick: its running mean over nine steps; dotted: the entropy of the label frequencies in "
        "the data of the run. (a) Runs without warmup on the whole stream, on one batch and on one sequence. (b) "
        "Warmed-up Post-Norm runs by peak learning rate. Markers distinguish curves that coincide."
    ),
    in_paper=(
        "without warmup, each scope's loss approaches the frequency loss of its own labels; with warmup, the runs at "
        "1.2e-3, 1.5e-3 and 1.8e-3 rise to the frequency loss of the stream and stay there"
    ),
    draw=draw,
)
