"""Figure 6: training loss against the frequency loss of the labels that the run was trained on."""

from collections.abc import Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.errors import run_stage
from collapse.figures.command import draw_and_save
from collapse.figures.labels import SCOPES, learning_rate
from collapse.figures.panels import curve, smooth, step_axis
from collapse.figures.runs import Shown, run_parser, show
from collapse.figures.style import BLUE, FULL, GREEN, INK, PURPLE, ordered_colours, panel_letters

ABOUT = "Training loss and frequency loss"
_MARKERS = "os^Dv"
_MARKERS_A_CURVE = 6
_SCOPE_COLOURS = {"stream": BLUE, "batch": GREEN, "sequence": PURPLE}


def draw(no_warmup: Sequence[Shown], warmup: Sequence[Shown], style: FiguresConfig) -> Figure:
    """Left: runs without warmup by the scope of their data. Right: warmed-up runs by learning rate.

    Thin lines are the loss of each step, thick ones its running mean over nine steps; their markers take turns, so that
    each of several equal curves shows. Dotted lines are the frequency losses of the pooled labels of each run's own
    scope.
    """
    figure = Figure(figsize=(FULL, 2.6), layout="constrained")
    left, right = figure.subplots(1, 2)
    scopes = [
        (shown, _SCOPE_COLOURS[shown[1]["scope"]], SCOPES[shown[1]["scope"]] or "whole stream") for shown in no_warmup
    ]
    _losses(left, scopes)
    by_rate = sorted(warmup, key=lambda shown: (shown[1]["lr"], shown[1]["seed"]))
    colours = ordered_colours(style, len(by_rate))
    _losses(
        right,
        [
            (shown, colour, f"lr {learning_rate(shown[1]['lr'])}")
            for shown, colour in zip(by_rate, colours, strict=True)
        ],
    )
    panel_letters((left, right), ("no warmup", "with warmup"))
    return figure


def _losses(ax: Axes, curves: Sequence[tuple[Shown, object, str]]) -> None:
    one_reference = len({round(row["freq_loss"], 3) for (_, row), _, _ in curves}) == 1
    for index, ((run, row), colour, label) in enumerate(curves):
        steps, loss = run["step"].values, run["loss"].values
        curve(ax, steps, loss, color=colour, alpha=0.25, linewidth=0.6, zorder=1.8)
        period = max(1, len(steps) // _MARKERS_A_CURVE)
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
        step_axis(ax, [run for (run, _), _, _ in curves])
        ax.plot([], [], color=INK, linestyle=":", linewidth=1.2, label="frequency loss")
        ax.legend(fontsize="small", labelspacing=0.3)
    else:
        ax.text(0.5, 0.5, "no such run in the grid", ha="center", transform=ax.transAxes)
        ax.set(xticks=[], yticks=[])


def _main() -> None:
    options = run_parser("frequency_loss", ABOUT)
    options.add_argument("--no-warmup", nargs="*", default=[], type=Path, help="folders of the runs of the left panel")
    options.add_argument("--warmup", nargs="*", default=[], type=Path, help="folders of the runs of the right panel")
    chosen = options.parse_args()
    no_warmup = [show(path, chosen) for path in chosen.no_warmup]
    warmup = [show(path, chosen) for path in chosen.warmup]
    draw_and_save(chosen, ABOUT, lambda style: draw(no_warmup, warmup, style))


if __name__ == "__main__":
    run_stage(_main)
