"""What the figures at initialization share: the settings they show, bands over seeds, axes and legends."""

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import MaxNLocator
from numpy.typing import NDArray

from collapse.config.figures import FiguresConfig
from collapse.figures.style import BLUE, GREEN, INK, PURPLE, VERMILION, ordered_colours
from collapse.store.dataset import spec_of

INPUTS = {"tokens": "Text", "gaussian": "Gaussian rows"}
SUBLAYERS = {"attention": "attention", "ffn": "FFN"}
DASHED = (0, (3.5, 1.5))
Values = NDArray[np.float64]


def one_input(data: xr.Dataset) -> xr.Dataset:
    """The data of the text input, or of the first input if text was not measured."""
    names = list(data["input"].values)
    return data.sel(input="tokens" if "tokens" in names else names[0])


def measured(values: xr.DataArray, dim: str) -> list[Any]:
    """Coordinates along a dimension at which anything was measured, in their order."""
    found = values.notnull().any([other for other in values.dims if other != dim])
    return list(values[dim].values[found.values])


def most_measured(values: xr.DataArray, dim: str, across: str, wanted: float) -> float:
    """The coordinate along `dim` with most measured coordinates along `across`; of several, the nearest to `wanted`.

    A sweep by axes measures every de-escalation at one variance factor only, and every variance factor at one
    de-escalation only.
    """
    others = [other for other in values.dims if other not in (dim, across)]
    counts = values.notnull().any(others).sum(across)
    best = values[dim].values[(counts == counts.max()).values]
    return float(best[np.argmin(np.abs(best - wanted))])


def mean_and_band(ax: Axes, x: Any, values: xr.DataArray, label: str | None = None, **look: Any) -> None:
    """Mean over the seeds with a band of one standard deviation over the seeds; one seed has no band.

    Args:
        ax: Where to draw.
        x: Horizontal positions.
        values: (seed, x).
        label: For the legend.
        look: Options of the curve.
    """
    several = values.transpose("seed", ...).values
    mean = several.mean(0)
    single = len(mean) == 1
    ax.plot(x, mean, label=label, marker="o" if single else None, markersize=3.5, **look)
    if len(several) > 1:
        spread = several.std(0, ddof=1)
        colour = look.get("color")
        if single:
            ax.errorbar(x, mean, spread, color=colour, linewidth=1.0, capsize=2)
        else:
            ax.fill_between(x, mean - spread, mean + spread, color=colour, alpha=0.22, linewidth=0)


def layer_axis(ax: Axes, layers: Values, label: str | None = "layer") -> None:
    """Limits, ticks and label of a horizontal axis of layers."""
    first, last = float(layers[0]), float(layers[-1])
    margin = 0.5 if first == last else 0.02 * (last - first)
    ax.set_xlim(first - margin, last + margin)
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    if label:
        ax.set_xlabel(label)


def say_if_empty(ax: Axes, words: str = "not measured") -> None:
    """Words in the middle of axes that have nothing to show."""
    if not any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in ax.get_lines()):
        ax.text(0.5, 0.5, words, ha="center", va="center", transform=ax.transAxes)
        ax.set(yticks=[])


def grid(figure: Figure, rows: int, columns: int, **options: Any) -> NDArray[Any]:
    """Axes (rows, columns)."""
    axes: NDArray[Any] = figure.subplots(rows, columns, squeeze=False, **options)
    return axes


def key(label: str, **look: Any) -> Line2D:
    """A legend entry for a line style or a marker."""
    return Line2D([], [], label=label, **{"color": INK, **look})


def swatches(labels: Sequence[str], colours: Sequence[Any], **look: Any) -> list[Line2D]:
    """Legend entries for colours."""
    return [key(label, color=colour, **look) for label, colour in zip(labels, colours, strict=True)]


def few_colours(style: FiguresConfig, count: int) -> list[Any]:
    """Colours of a few settings whose curves may cross: easier to distinguish than those of an ordered palette."""
    return [BLUE, GREEN, VERMILION, PURPLE][:count] if count <= 4 else ordered_colours(style, count)


def stack_label(data: xr.Dataset) -> str:
    """The stack in words: `24 layers, d 64, n 128`."""
    model = spec_of(data)["model"]
    layers = f"{model['layers']} layer{'s' if model['layers'] > 1 else ''}"
    return f"{layers}, d {model['width']}, n {model['sequence_length']}"


def setting_label(data: xr.Dataset) -> str:
    """The settings of a dataset of increments in words, after the choice of one input."""
    parts = [INPUTS[str(data["input"].values)], stack_label(data)]
    if data["deescalation"].ndim == 0 and data["deescalation"] != 0:
        parts.append(f"P − {data['deescalation'].item():g} $C_n$ for P")
    seeds = data.sizes["seed"]
    parts.append(f"mean ± 1 s.d. over {seeds} seeds" if seeds > 1 else "one seed")
    return "; ".join(parts)


def times(scale: float) -> str:
    """A factor in print: `×2`."""
    return f"×{scale:g}"


def ratio(value: float) -> str:
    """A variance in print: `1/3`, or `0.41` if it is no simple fraction."""
    fraction = Fraction(value).limit_denominator(12)
    return str(fraction) if abs(float(fraction) - value) < 1e-9 else f"{value:.3g}"


def over_depth(data: xr.Dataset, name: str) -> tuple[Values, xr.DataArray]:
    """Depths 0 to L, and the token similarity of the stack's input and of every layer's output, (..., layer).

    Args:
        data: With `tsim_x` and `name`, (..., layer, sublayer).
        name: Token similarity of the sublayers' outputs, measured or predicted.
    """
    start = data["tsim_x"].sel(sublayer="attention", drop=True).isel(layer=[0])
    ends = data[name].sel(sublayer="ffn", drop=True)
    return np.r_[0.0, data["layer"].values], xr.concat([start.assign_coords(layer=[0]), ends], "layer")


def with_error(ax: Axes, x: Any, values: Values, error: Values, label: str | None = None, **look: Any) -> None:
    """A curve with a band of two standard errors where known; a point with an error bar if `x` is one position.

    Args:
        ax: Where to draw.
        x: Horizontal positions.
        values: What to draw.
        error: Standard errors; NaN where unknown.
        label: For the legend.
        look: Options of the curve.
    """
    if len(values) == 1:
        ax.errorbar(x, values, 2 * np.nan_to_num(error), marker="o", markersize=3.5, capsize=2, label=label, **look)
        return
    ax.plot(x, values, label=label, **look)
    ax.fill_between(x, values - 2 * error, values + 2 * error, color=look["color"], alpha=0.25, linewidth=0)


def initializations_label(data: xr.Dataset, errors: bool) -> str:
    """In words, what the attention matrices were averaged over."""
    seeds, blocks = data.sizes["seed"], data.sizes["block"]
    spread = f"± 2 s.e. from leaving out each of {blocks} blocks" if errors else "one block, so no standard errors"
    return f"Text; {stack_label(data)}; {seeds} initialization{'s' if seeds > 1 else ''}, {spread}"
