"""Claims about attention matrices at initialization, and what makes the formula differ (Appendix F, figure 1)."""

import math
from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr

from collapse.analysis.claims_judging import Claim, Measured, NotMeasured, Range, by_jackknife, select
from collapse.probes.jackknife import jackknife_error
from collapse.store.dataset import spec_of

PAPER = {"layers": 48, "width": 512, "heads": 4, "sequence_length": 2048}
"""The model that the paper's numbers in Appendix F.2 are of."""
INITIALIZATIONS = 32
"""Over how many the paper averages."""
GAPS = ("gap_prefix", "gap_ratio", "gap_equal")


def every_layer(data: xr.Dataset, variable: str) -> Measured:
    """A relative error of Appendix F in every layer."""
    return Measured(data[variable].values, data[f"{variable}_se"].values)


def prefix_error(data: xr.Dataset, statistic: Callable[[xr.DataArray], xr.DataArray]) -> Measured:
    """A statistic over layers of ||E[P] - C_n||/||C_n||, at the paper's shape and number of initializations.

    Raises:
        NotMeasured: where the dataset has another shape.
    """
    spec = spec_of(data)
    first, last = spec["seeds"]
    if {name: spec["model"][name] for name in PAPER} != PAPER or last - first != INITIALIZATIONS:
        raise NotMeasured("the paper's shape")
    whole = statistic(data["prefix_error"]).values
    without = statistic(data["prefix_error_without"]).values
    return Measured(whole, jackknife_error(whole, without, data["block_seeds"].values))


def gap_share(data: xr.Dataset, gap: str) -> Measured:
    """Share of an approximation in the gap between measured and predicted increments of attention, Post-Norm, x1.

    Gaps are averaged over networks, and their absolute values summed over layers. Sampling noise adds to an absolute
    value, whatever the sign; so the error is that of the jackknife over networks together with what noise would add.
    """
    found = select(data, placement="post", variance_scale=1.0)

    def share(part: xr.Dataset) -> xr.DataArray:
        sums = _absolute_sums(part)
        return sums.sel(gap=gap) / sums.sum("gap", skipna=False)

    value, error = (float(np.asarray(part)) for part in by_jackknife(found, share))
    noises = [_noise(found[f"{name}_se"]) if f"{name}_se" in found else 0.0 for name in GAPS]
    noise = (noises[GAPS.index(gap)] + value * sum(noises)) / _absolute_sums(found).sum(skipna=False).values
    return Measured(value, float(np.hypot(error, noise)))


def _absolute_sums(data: xr.Dataset) -> xr.DataArray:
    """Sums over layers of the absolute gaps, averaged over networks: dim gap."""
    gaps = data[list(GAPS)].mean("seed", skipna=False).to_dataarray("gap")
    return abs(gaps).sum("layer", skipna=False)


def _noise(errors: xr.DataArray) -> float:
    """Sum over layers of the mean absolute value of noise with these standard errors, averaged over networks."""
    error: xr.DataArray = (errors**2).sum("seed", skipna=False) ** 0.5 / errors.sizes["seed"]
    return math.sqrt(2 / math.pi) * float(error.sum("layer", skipna=False))


_FIGURE_9 = "||E[P] - C_n||_F/||C_n||_F over 32 initializations and the heads, at the paper's shape"
CLAIMS = (
    Claim(
        "prefix-error-first", "E[P] is about 2.7 % from C_n in the first layer", "Appendix F.2", "9",
        f"{_FIGURE_9}: layer 1", Range(0.024, 0.029), ("attention",),
        partial(prefix_error, statistic=lambda error: error.isel(layer=0)),
    ),
    Claim(
        "prefix-error-last", "E[P] is about 1.2 % from C_n by layer 48", "Appendix F.2", "9",
        f"{_FIGURE_9}: layer 48", Range(0.010, 0.019), ("attention",),
        partial(prefix_error, statistic=lambda error: error.isel(layer=-1)),
    ),
    Claim(
        "prefix-error-mean", "E[P] is about 2.1 % from C_n over all layers", "Appendix F.2", "9",
        f"{_FIGURE_9}: mean over layers", Range(0.019, 0.024), ("attention",),
        partial(prefix_error, statistic=lambda error: error.mean("layer")),
    ),
    Claim(
        "prefix-error-falls", "E[P] comes closer to C_n with depth", "Appendix F.2", "9",
        f"{_FIGURE_9}: layer 1 minus layer 48", Range(low=0), ("attention",),
        partial(prefix_error, statistic=lambda error: error.isel(layer=0) - error.isel(layer=-1)),
    ),
    Claim(
        "prefix-error-small", "E[P] is close to C_n throughout the stack", "Appendix F.2", "9",
        "||E[P] - C_n||_F/||C_n||_F over initializations and heads, largest over layers", Range(high=0.1),
        ("attention",), partial(every_layer, variable="prefix_error"),
    ),
    Claim(
        "proxy-attention-small", "the proxy of attention's second moment is close throughout the stack",
        "Appendix F.1", "8", "delta_attn, largest over layers", Range(high=0.1), ("attention",),
        partial(every_layer, variable="delta_attn"),
    ),
    Claim(
        "proxy-projected-small", "the projected proxy of the second moment is close throughout the stack",
        "Appendix F.1", "8", "delta_proj, largest over layers", Range(high=0.1), ("attention",),
        partial(every_layer, variable="delta_proj"),
    ),
    *(
        Claim(
            f"approximation-split-{name}", f"the mismatch of Figure 1 comes mostly from {words}",
            "open in Section 4.1", "1", "share of the gap in the three gaps, |gap| summed over layers, Post-Norm",
            Range(low=0.5), ("approximations",), partial(gap_share, gap=gap),
        )
        for name, words, gap in (
            ("prefix", "prefix averaging, C_n for P", "gap_prefix"),
            ("ratio", "the ratio of expectations", "gap_ratio"),
            ("equal", "equal correlation, R_eq(t) for the Gram matrix", "gap_equal"),
        )
    ),
    Claim(
        "ratio-of-expectations-accurate", "the ratio of expectations is accurate for one step", "Appendix C.7", "1",
        "its share in the gap between measured and predicted increments, Post-Norm", Range(high=0.1),
        ("approximations",), partial(gap_share, gap="gap_ratio"),
    ),
)  # fmt: skip
"""Claims that the attention matrices and the approximation split decide."""
