"""Panels and axes that several figures share."""

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import LogNorm
from matplotlib.image import AxesImage
from matplotlib.ticker import FuncFormatter, LogLocator, MaxNLocator, NullFormatter

from collapse.config.figures import FiguresConfig
from collapse.figures.labels import Row
from collapse.figures.style import BLUE, INK, VERMILION, colour_map, ordered_colours
from collapse.pipeline.layers import layers_shown

_MANY_POINTS = 5000

MASKED = "where either gradient norm is below figures.mask_gradient_below (1e-10 by default; Appendix F.4)"
"""Where `masked` leaves values out, for captions."""


def masked(run: xr.Dataset, name: str, style: FiguresConfig) -> xr.DataArray:
    """A quotient of gradient norms, NaN where either norm is too small for it to mean anything (Appendix F.4)."""
    return run[name].where((run["grad_x"] >= style.mask_gradient_below) & (run["grad_y"] >= style.mask_gradient_below))


def window(run: xr.Dataset, row: Row, style: FiguresConfig) -> xr.Dataset:
    """The steps of the transition and `style.window` steps on either side; the whole run if it has no transition."""
    if np.isnan(row["transition_step"]):
        return run
    first, last = row["transition_step"], row["transition_step"] + row["transition_length"]
    return run.sel(step=slice(first - style.window, last + style.window))


def layer_curves(ax: Axes, values: xr.DataArray, style: FiguresConfig) -> None:
    """One curve per layer over the steps, coloured from the first layer to the last; `values` is (step, layer)."""
    layers = layers_shown(values.sizes["layer"], style.layer_stride)
    for layer, colour in zip(layers, ordered_colours(style, len(layers)), strict=True):
        curve(ax, values["step"].values, values.sel(layer=layer).values, color=colour, label=str(layer))


def smooth(steps: Any, values: Any) -> Any:
    """A centred running mean over nine steps, or those of them that were recorded; it removes batch noise."""
    around = pd.Series(values, pd.to_timedelta(steps, unit="s")).rolling("9s", center=True, min_periods=1)
    return around.mean().to_numpy()


def curve(ax: Axes, steps: Any, values: Any, **options: Any) -> None:
    """A curve over the steps. A single point becomes a dot; very many points become an image in the PDF."""
    finite = np.isfinite(values)
    lonely = finite.sum() == 1
    ax.plot(steps, values, marker="." if lonely else None, rasterized=len(steps) > _MANY_POINTS, **options)


def step_axis(ax: Axes, runs: Sequence[xr.Dataset], label: bool = True) -> None:
    """Limits, ticks and label of a horizontal axis over the optimizer steps of some runs."""
    first = float(min(run["step"].values[0] for run in runs))
    last = float(max(run["step"].values[-1] for run in runs))
    ax.set_xlim(first - 0.5 * (first == last), last + 0.5 * (first == last))
    ax.xaxis.set_major_locator(MaxNLocator(nbins=6, integer=True))
    if label:
        ax.set_xlabel("optimizer step")


def mark_transition(ax: Axes, row: Row, shade: bool = True) -> None:
    """A dashed line at the transition step, with a blue shade before it and a red shade after it."""
    step = row["transition_step"]
    if np.isnan(step):
        return
    left, right = ax.get_xlim()
    ax.axvline(step, color=INK, linestyle=(0, (4, 2)), linewidth=0.8, zorder=1.5)
    if shade:
        ax.axvspan(left, step, color=BLUE, alpha=0.07, linewidth=0)
        ax.axvspan(step, right, color=VERMILION, alpha=0.09, linewidth=0)


def log_axis(ax: Axes, values: Any) -> None:
    """A logarithmic vertical axis if the values are positive and span more than a decade."""
    values = np.asarray(values)
    values = values[np.isfinite(values)]
    if not len(values) or values.min() <= 0 or values.max() <= 10 * values.min():
        return
    ax.set_yscale("log")
    if values.max() < 1000 * values.min():
        ax.yaxis.set_major_locator(LogLocator(subs=(1, 2, 5)))
        ax.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        ax.yaxis.set_minor_formatter(NullFormatter())


def depth_map(ax: Axes, values: xr.DataArray, floor: float, top: float, style: FiguresConfig) -> AxesImage:
    """A map over step and depth on a logarithmic colour scale; each layer is two rows, attention below its FFN.

    A step that was not recorded shows the values of the nearest recorded step.

    Args:
        ax: Where to draw.
        values: (step, layer, sublayer).
        floor: Lower end of the colour scale; smaller values look like it.
        top: Upper end of the colour scale.
        style: Holds the palette.
    """
    layers = values.sizes["layer"]
    first, last = values["step"].values[[0, -1]]
    values = values.sel(step=np.arange(first, last + 1), method="nearest")
    image = values.transpose("layer", "sublayer", "step").values.reshape(2 * layers, -1).astype(float)
    steps = values["step"].values
    picture = ax.imshow(
        np.clip(image, floor, top),
        norm=LogNorm(floor, top),
        cmap=colour_map(style),
        aspect="auto",
        origin="lower",
        extent=(float(steps[0]) - 0.5, float(steps[-1]) + 0.5, 0.5, layers + 0.5),
        interpolation="nearest" if len(steps) < 1000 else "antialiased",
    )
    ax.set_ylabel("layer")
    ax.yaxis.set_major_locator(MaxNLocator(nbins=6, integer=True, min_n_ticks=1))
    for spine in ax.spines.values():
        spine.set_visible(False)
    return picture
