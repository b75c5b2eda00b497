"""Row norms of the sublayers' outputs over the position, measured and by Lemmas C.4 and C.5."""

import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.labels import PLACEMENTS
from collapse.figures.stack import (
    DASHED,
    SUBLAYERS,
    Values,
    few_colours,
    grid,
    key,
    mean_and_band,
    measured,
    most_measured,
    one_input,
    say_if_empty,
    setting_label,
    swatches,
    times,
)
from collapse.figures.style import FULL, headline, panel_letters
from collapse.store.dataset import spec_of
from collapse.theory.ffn import swiglu_moment


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """(a) Attention, (b) FFN; the first, the middle and the last layer, under Post-Norm if it was measured."""
    data = one_input(data)
    placement = "post" if "post" in data["placement"].values else str(data["placement"].values[0])
    scale = most_measured(data["tsim_y"], "variance_scale", "deescalation", 1.0)
    data = data.sel(placement=placement, variance_scale=scale)
    amounts = measured(data["tsim_y"], "deescalation") or data["deescalation"].values
    data = data.sel(deescalation=min(amounts))
    last = int(data["layer"].values[-1])
    layers = sorted({1, (last + 1) // 2, last})
    colours = few_colours(style, len(layers))
    figure = Figure(figsize=(FULL, 2.7), layout="constrained")
    axes = grid(figure, 1, 2, sharey=True)[0]
    lemmas = {"attention": data["row_square_predicted"], "ffn": _ffn_prediction(data, scale)}
    for ax, sublayer in zip(axes, SUBLAYERS, strict=True):
        for layer, colour in zip(layers, colours, strict=True):
            at = {"layer": layer, "sublayer": sublayer}
            mean_and_band(ax, data["position"].values, data["row_square"].sel(at), color=colour)
            predicted = lemmas[sublayer].sel(at).mean("seed").values
            ax.plot(data["position"].values, predicted, color=colour, linestyle=DASHED)
        _position_axis(ax, data["position"].values)
        say_if_empty(ax)
    axes[0].set_ylabel(r"$\|y_i\|_2^2\,/\,d$")
    panel_letters(axes, [f"{PLACEMENTS[placement]}, {sublayer}" for sublayer in SUBLAYERS.values()])
    handles = [key("measured"), key("lemma", linestyle=DASHED)]
    shown = handles if placement == "post" else handles[:1]
    figure.legend(handles=[*swatches(list(map(str, layers)), colours), *shown], title="layer",
                  loc="outside right center")  # fmt: skip
    lemma = "" if placement == "post" else "; the lemmas are for Post-Norm"
    headline(figure, f"{setting_label(data)}; variance {times(scale)}{lemma}")
    return figure


def _ffn_prediction(data: xr.Dataset, scale: float) -> xr.DataArray:
    """1 + xi m(1) of Lemma C.4 at every position; NaN where rows are not normalized."""
    variance = (scale if spec_of(data)["variance_target"] == "all" else 1.0) / 3
    level = 1 + data["amount"] * swiglu_moment(1.0, variance)
    return level.where(data["placement"] == "post").expand_dims(position=data["position"])


def _position_axis(ax: Axes, positions: Values) -> None:
    ax.set_xscale("log", base=2)
    ax.set_xlim(positions[0] / 1.2, positions[-1] * 1.2)
    ax.xaxis.set_major_formatter(lambda value, _: f"{value:g}")
    ax.set_xlabel("position $i$")


FAMILY = Family(
    title="Row norms over the position",
    category=AT_INITIALIZATION,
    caption=(
        "Mean square entry of row i of a sublayer's output at initialization: mean and band of ± 1 standard deviation "
        "over seeds. Dashed: α + β/i (a; Lemma C.5) and the same value at every position (b; Lemma C.4)."
    ),
    draw=draw,
)
