"""How xi_1 and xi_2 concentrate as the width grows, and the shape of the bounds (Lemmas C.11 and C.12)."""

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import NullFormatter

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.stack import DASHED, SUBLAYERS, key, say_if_empty
from collapse.figures.style import BLUE, FULL, INK, VERMILION, panel_letters
from collapse.store.dataset import spec_of
from collapse.theory.concentration import ENOUGH

COLOURS = {"attention": BLUE, "ffn": VERMILION}
MARKERS = {"xi_1": "o", "xi_2": "s"}
SYMBOLS = {"xi_1": r"$\xi_1$", "xi_2": r"$\xi_2$"}


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """(a) Standard deviation over draws against the width, (b) tail probability against the bound's exponent."""
    realizations = data.sizes["realization"]
    draws = spec_of(data)["draws"] // realizations
    figure = Figure(figsize=(FULL, 2.9), layout="constrained")
    left, right = figure.subplots(1, 2)
    curves = [(branch, quantity) for branch in SUBLAYERS for quantity in MARKERS]
    for branch, quantity in curves:
        one = data.sel(branch=branch, quantity=quantity)
        look: dict[str, Any] = {
            "color": COLOURS[branch],
            "marker": MARKERS[quantity],
            "markersize": 3.5,
            "markeredgewidth": 0,
        }
        left.plot(data["width"].values, one["deviation_expected"].mean("realization").values, color=COLOURS[branch])
        for index in range(realizations):
            left.plot(data["width"].values, one["deviation"].isel(realization=index).values, linestyle="none", **look)
        for _, at in one.stack(site=("width", "realization")).groupby("site"):
            rate, tail = (part.values.ravel() for part in (at["rate"], at["tail"].where(at["tail"] > 0)))
            enough = tail * draws >= ENOUGH
            right.plot(rate[enough], tail[enough], linewidth=0.5, alpha=0.7, **look)
            right.plot(rate[~enough], tail[~enough], linestyle="none", alpha=0.2, **look)
    _width_axis(left, data)
    _bound(right, data)
    panel_letters((left, right), (f"spread over {draws} draws of W", "tail probability"))
    for ax in (left, right):
        say_if_empty(ax)
    names = [key(f"{SUBLAYERS[branch]}, {SYMBOLS[quantity]}", color=COLOURS[branch], marker=MARKERS[quantity],
                 markersize=4) for branch, quantity in curves]  # fmt: skip
    figure.legend(handles=names, loc="outside right center")
    return figure


def _width_axis(ax: Axes, data: xr.Dataset) -> None:
    """Logarithmic axes, and a guide line of slope -1/2 above the curves."""
    widths, deviation = data["width"].values.astype(float), data["deviation"]
    ax.set(xscale="log", xlabel="width $d$", ylabel=r"standard deviation of $\xi$")
    ax.set_xticks(widths, [f"{width:g}" for width in widths])
    ax.xaxis.set_minor_formatter(NullFormatter())
    if (deviation > 0).any():
        ax.set_yscale("log")
        top = 1.3 * float((deviation * np.sqrt(data["width"])).max())
        ax.plot(widths, top / np.sqrt(widths), color=INK, linestyle=DASHED, linewidth=0.8, label=r"slope $-1/2$")
    ax.plot([], [], color=INK, label="exact")
    ax.legend(fontsize="small", loc="lower left")


def _bound(ax: Axes, data: xr.Dataset) -> None:
    """The bound's shape with the largest constant that all curves allow."""
    ax.set(xlabel=r"rate, min{…} of the bound at $\varepsilon$",
           ylabel=r"share of draws, $|\xi - \mathrm{E}\,\xi| \geq \varepsilon$")  # fmt: skip
    exponents, tails = data["exponent"].values, data["tail"].values
    seen = tails[tails > 0]
    if seen.size:
        ax.set_yscale("log")
    if seen.size and np.isfinite(exponents).any():
        constant = exponents[np.isfinite(exponents)].min()
        rate = np.linspace(0, np.log(8 / seen.min()) / constant, 100)
        bound = np.minimum(4 * np.exp(-constant * rate), 1)
        name = rf"$4\,e^{{-c\,\mathrm{{rate}}}}$, $c$ = {constant:.2g}"
        ax.plot(rate, bound, color=INK, linestyle=DASHED, label=name)
        ax.legend(fontsize="small", loc="upper right")


FAMILY = Family(
    title="Concentration of xi_1 and xi_2 as the width grows",
    category=AT_INITIALIZATION,
    caption=(
        "ξ₁ = ‖ΠY‖²/‖ΠX‖² and ξ₂ = ‖Y‖²/‖X‖² over draws of a sublayer's weights (Lemmas C.11 and C.12). (a) Standard "
        "deviation by width: points measured, lines exact for Gaussian weights. (b) Share of draws further than ε "
        "from the expectation, against the exponent of the bound. Dashed: the bound's shape with the largest constant "
        "c that all curves allow. Faint: fewer than ten draws, which do not count for c."
    ),
    draw=draw,
)
