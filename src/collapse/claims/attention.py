"""Claims about attention matrices at initialization, and why the closed form is not exact (Appendix F, figure 1)."""

from collections.abc import Callable
from functools import partial

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from collapse.analysis.uncertainty import (
    SMALLEST_SAMPLE,
    Measured,
    NotMeasured,
    over_blocks,
    select,
    share_of_gap,
)
from collapse.claims.judging import Claim, Range
from collapse.store.dataset import spec_of

Array = NDArray[np.float64]
PAPER = {"layers": 48, "width": 512, "heads": 4, "ffn_width": 1536, "sequence_length": 2048}
"""Shape of the model of Appendix F.2."""
INITIALIZATIONS = 32
"""How many initializations the paper averages over."""


def proxy_error(data: xr.Dataset, variable: str) -> Measured:
    """A relative error of Appendix F.1, by layer.

    Raises:
        NotMeasured: with fewer initializations than the paper has, whose sampling noise would increase the error.
    """
    first, last = spec_of(data)["seeds"]
    if last - first < INITIALIZATIONS:
        raise NotMeasured(f"{INITIALIZATIONS} initializations")
    return over_blocks(data[variable].values, data[f"{variable}_without"].values, data["block_seeds"].values)


def prefix_error(data: xr.Dataset, statistic: Callable[[xr.DataArray], xr.DataArray]) -> Measured:
    """A statistic over layers of ||E[P] - C_n||_F/||C_n||_F, at the paper's shape and number of initializations.

    Raises:
        NotMeasured: where the dataset has another shape or number of initializations.
    """
    spec = spec_of(data)
    first, last = spec["seeds"]
    if {name: spec["model"][name] for name in PAPER} != PAPER or last - first != INITIALIZATIONS:
        raise NotMeasured("the paper's shape")
    whole, without = (statistic(data[name]).values for name in ("prefix_error", "prefix_error_without"))
    return over_blocks(whole, without, data["block_seeds"].values)


def squared_bias(bias: Array, noise: Array) -> Array:
    """b^2 by layer."""
    return bias


def noise_share(bias: Array, noise: Array) -> Array:
    """Share of noise in the squared prefix error of the paper's number of initializations, mean over layers."""
    return np.asarray(np.mean(noise / (INITIALIZATIONS * bias + noise), -1))


def prefix_parts(data: xr.Dataset, statistic: Callable[[Array, Array], Array]) -> Measured:
    """A statistic of b^2 and v by layer: the squared prefix error of N initializations has the expectation b^2 + v/N.

    b is the error that infinitely many initializations would leave. The estimate of b^2 is unbiased, so it can be
    negative.

    Raises:
        NotMeasured: with one initialization, which cannot tell b from v.
    """
    single = data["prefix_error_seed"].transpose("seed", "layer").values ** 2
    sizes = data["block_seeds"].values
    block = np.repeat(np.arange(len(sizes)), sizes)
    if len(single) < 2:
        raise NotMeasured("two initializations")

    def part(error: Array, chosen: NDArray[np.bool_]) -> Array:
        count, alone = np.count_nonzero(chosen), single[chosen].mean(0)
        bias = (count * error**2 - alone) / (count - 1)
        return statistic(bias, alone - bias)

    whole = part(data["prefix_error"].values, np.ones(len(single), bool))
    if len(sizes) < SMALLEST_SAMPLE:
        return Measured(whole, np.nan)
    errors = data["prefix_error_without"].transpose("block", "layer").values
    return over_blocks(whole, [part(error, block != left) for left, error in enumerate(errors)], sizes)


def gap_share(data: xr.Dataset, gap: str) -> Measured:
    """Share of one approximation in the gap, Post-Norm, standard variance."""
    return share_of_gap(select(data, placement="post", variance_scale=1.0), gap)


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
        "(||E[P] - C_n||_F/||C_n||_F)^2 that infinitely many initializations would leave, largest over layers",
        Range(high=0.01), ("attention",), partial(prefix_parts, statistic=squared_bias),
    ),
    Claim(
        "prefix-error-noise", "most of the squared distance of E[P] from C_n is noise of the 32 initializations",
        "Appendix F.2", "9",
        "1 - b^2/e^2, e = ||E[P] - C_n||_F/||C_n||_F over 32 initializations, b over infinitely many; mean over layers",
        Range(low=0.5), ("attention",), partial(prefix_parts, statistic=noise_share),
    ),
    Claim(
        "proxy-attention-small", "the proxy of attention's second moment is close throughout the stack",
        "Appendix F.1", "8", "delta_attn, largest over layers", Range(high=0.1), ("attention",),
        partial(proxy_error, variable="delta_attn"),
    ),
    Claim(
        "proxy-projected-small", "the projected proxy of the second moment is close throughout the stack",
        "Appendix F.1", "8", "delta_proj, largest over layers", Range(high=0.1), ("attention",),
        partial(proxy_error, variable="delta_proj"),
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
"""Claims that the attention matrices and the approximations decide."""
