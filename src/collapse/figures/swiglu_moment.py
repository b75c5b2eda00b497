"""Figure 7: m(rho) of Theorem 3.4 by quadrature and by Monte Carlo."""

import numpy as np
import xarray as xr
from matplotlib.figure import Figure

from collapse.config.figures import FiguresConfig
from collapse.figures.family import AT_INITIALIZATION, Family
from collapse.figures.stack import few_colours, key, ratio, say_if_empty, swatches
from collapse.figures.style import COLUMN, INK, panel_letters


def draw(style: FiguresConfig, *, data: xr.Dataset) -> Figure:
    """(a) m(rho), one colour per pre-activation variance, points at every fourth rho; (b) difference in s.e."""
    rho, variances = data["rho"].values, data["preact_variance"].values
    colours = few_colours(style, len(variances))
    names = []
    figure = Figure(figsize=(COLUMN, 3.5), layout="constrained")
    moment, difference = figure.subplots(2, 1, sharex=True, height_ratios=[2.2, 1])
    for variance, colour in zip(variances, colours, strict=True):
        one = data.sel(preact_variance=variance)
        error = one["moment_sampled_se"].values
        moment.plot(rho, one["moment"].values, color=colour)
        some = slice(None, None, 4)
        moment.errorbar(rho[some], one["moment_sampled"].values[some], 2 * np.nan_to_num(error[some]), color=colour,
                        linestyle="none", marker="o", markersize=2.5, elinewidth=0.8)  # fmt: skip
        names.append(
            rf"$\sigma^2 = {ratio(variance)}$: {one['moment'].values[0]:.3f} to {one['moment'].values[-1]:.3f}"
        )
        away = np.divide(
            one["moment_sampled"].values - one["moment"].values, error, out=error * np.nan, where=error > 0
        )
        difference.plot(rho, away, color=colour, marker="o", markersize=1.8, linewidth=0.5)
    moment.set(ylabel=r"$m(\rho)$", ylim=(0, None))
    difference.set(xlabel=r"correlation $\rho$", ylabel="difference (s.e.)", xlim=(-0.02, 1.02))
    reach = max(np.abs(difference.get_ylim()).max(), 3)
    difference.set_ylim(-reach, reach)
    say_if_empty(moment)
    say_if_empty(difference, "no standard errors")
    difference.axhspan(-2, 2, color=INK, alpha=0.1, linewidth=0)
    difference.axhline(0, color=INK, linewidth=0.6)
    panel_letters((moment, difference), ("SwiGLU moment", "Monte Carlo − quadrature"))
    handles = [key("quadrature"), key("Monte Carlo ± 2 s.e.", linestyle="none", marker="o", markersize=2.5)]
    moment.legend(handles=[*swatches(names, colours), *handles],
                  fontsize="small", labelspacing=0.25, loc="upper left")  # fmt: skip
    return figure


FAMILY = Family(
    title="m(rho) by quadrature and by Monte Carlo",
    category=AT_INITIALIZATION,
    caption=(
        "(a) m(ρ) = E[SiLU(u) SiLU(v)] for normal u and v of variance σ² and correlation ρ (Theorem 3.4); lines by "
        "quadrature, points by Monte Carlo. The legend gives m(0) and m(1). σ² = 1/3 is standard initialization. (b) "
        "Monte Carlo minus quadrature in standard errors; grey: ± 2. All points share their draws, so their errors "
        "are correlated."
    ),
    in_paper="m(ρ) at standard initialization increases from m(0) ≈ 0.006 to m(1) ≈ 0.100",
    draw=draw,
)
