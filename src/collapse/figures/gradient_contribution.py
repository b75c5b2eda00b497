"""Figures 3, 10, 12, 15, 18, 21: loss, last-layer token similarity, and the sublayers' gradient contribution alpha."""

from collections.abc import Sequence

from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import RUNS, Family
from collapse.figures.labels import outcome, run_label
from collapse.figures.panels import MASKED, curve, layer_curves, log_axis, mark_transition, masked, step_axis
from collapse.figures.runs import Shown
from collapse.figures.style import BLUE, FULL, VERMILION, headline, panel_letters


def draw(style: FiguresConfig, *, run: Sequence[Shown]) -> Figure:
    """(a) Training loss, (b) last-layer token similarity, (c) gradient contribution of attention and (d) of FFN."""
    [(data, row)] = run
    figure = Figure(figsize=(FULL, 4.0), layout="constrained")
    (loss, tsim), (attention, ffn) = figure.subplots(2, 2, sharex=True)
    steps = data["step"].values

    curve(loss, steps, data["loss"].values, color=BLUE)
    loss.axhline(row["freq_loss"], color=VERMILION, linestyle=":", linewidth=1.0)
    loss.set_ylabel("loss (nats)")
    curve(tsim, steps, data["tsim_final"].values, color=BLUE)
    tsim.set(ylabel="token similarity", ylim=(-0.03, 1.03))
    alpha = masked(data, "alpha", style)
    for ax, sublayer, index in ((attention, "attention", 1), (ffn, "ffn", 2)):
        layer_curves(ax, alpha.sel(sublayer=sublayer), style)
        ax.set_ylabel(rf"$\alpha_{index}^l$")
        log_axis(ax, alpha)
    panels = (loss, tsim, attention, ffn)
    for ax in panels:
        step_axis(ax, [data], label=ax in (attention, ffn))
        mark_transition(ax, row, shade=False)
    panel_letters(panels, ("training loss (dotted: frequency loss)", "last layer", "attention", "FFN"))
    handles, labels = attention.get_legend_handles_labels()
    figure.legend(handles, labels, title="layer", loc="outside right center")
    headline(figure, f"{run_label(row)}: {outcome(row)}")
    return figure


FAMILY = Family(
    title="Sublayer gradient contribution over the run",
    category=RUNS,
    caption=(
        "(a) Training loss; dotted: the frequency loss. (b) Token similarity of the last layer's output. (c, d) "
        "Gradient contribution α = ‖∂L/∂X‖ / ‖∂L/∂Y‖ of the attention and FFN sublayers, by layer. "
        f"α is left out {MASKED}. Dashed: the transition step."
    ),
    in_paper="α rises around the transition and stays below 2.5",
    draw=draw,
)
