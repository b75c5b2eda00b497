"""Claims about token similarity at initialization, read from the increments (figures 1 and 2).

Unless a function names another setting: text as input, standard variance, a = 0.
"""

from functools import partial

import numpy as np
import xarray as xr
from scipy.stats import spearmanr

from collapse.analysis.uncertainty import (
    Measured,
    NotMeasured,
    by_jackknife,
    over_seeds,
    ratio_of_means,
    select,
    several,
)
from collapse.claims.judging import Claim, Range
from collapse.theory.ffn import swiglu_moment

STANDARD: dict[str, str | float] = {"input": "tokens", "variance_scale": 1.0, "deescalation": 0.0}
PLACEMENTS = ("post", "pre")


def at_standard(data: xr.Dataset, placement: str, sublayer: str, **other: str | float) -> xr.Dataset:
    """The increments at one placement and sublayer, at the standard settings unless `other` names another value."""
    return select(data, **{**STANDARD, "placement": placement, "sublayer": sublayer, **other})


def along(data: xr.Dataset, axis: str, placement: str, sublayer: str, least: int = 2) -> xr.Dataset:
    """The increments at every measured value of one setting, ascending; the other setting is the standard one.

    Args:
        data: The increments.
        axis: The setting: "variance_scale" or "deescalation".
        placement: "post" or "pre".
        sublayer: "attention" or "ffn".
        least: How many values are needed.

    Raises:
        NotMeasured: where fewer were measured.
    """
    fixed = {name: value for name, value in STANDARD.items() if name != axis}
    found = select(data, **{**fixed, "placement": placement, "sublayer": sublayer})
    found = found.isel({axis: found["tsim_x"].notnull().any(("seed", "layer")).values}).sortby(axis)
    if found.sizes[axis] < least:
        raise NotMeasured(f"{axis} at {least} values or more, for {placement} {sublayer}")
    return found


def require_growth(increments: xr.DataArray) -> None:
    """Checks that increments, dim seed, are clearly positive, so that a share of them means something.

    Raises:
        NotMeasured: where their mean is not clearly positive.
    """
    if Range(low=0).judge(over_seeds(increments))[1] != "holds":
        raise NotMeasured("a growth of token similarity to compare with")


def attention_increments(data: xr.Dataset) -> Measured:
    """Mean increments of attention by placement and layer."""
    return several(over_seeds(at_standard(data, placement, "attention")["increment"]) for placement in PLACEMENTS)


def rank_agreement(data: xr.Dataset) -> Measured:
    """Rank correlation of predicted and measured increments of attention over layers and variances, by placement."""

    def correlation(part: xr.Dataset) -> float:
        mean = part[["increment_predicted", "increment"]].mean("seed", skipna=False)
        if mean["increment"].isnull().any():
            return np.nan
        return float(spearmanr(mean["increment_predicted"].values, mean["increment"].values, axis=None).statistic)

    settings = (along(data, "variance_scale", placement, "attention", least=1) for placement in PLACEMENTS)
    return several(by_jackknife(setting, correlation) for setting in settings)


def scale_agreement(data: xr.Dataset, sublayer: str) -> Measured:
    """Predicted over measured increments, both summed over layers, by placement and variance."""

    def ratio(part: xr.Dataset) -> xr.DataArray:
        sums = part[["increment_predicted", "increment"]].sum("layer", skipna=False).mean("seed", skipna=False)
        return sums["increment_predicted"] / sums["increment"]

    settings = (along(data, "variance_scale", placement, sublayer, least=1) for placement in PLACEMENTS)
    return several(by_jackknife(setting, ratio) for setting in settings)


def variance_steps(data: xr.Dataset) -> Measured:
    """Growth of attention's increment from each variance to the next, in layer 1, where all have the same t."""
    first = (along(data, "variance_scale", placement, "attention").isel(layer=0) for placement in PLACEMENTS)
    return several(over_seeds(layer["increment"].diff("variance_scale")) for layer in first)


def post_above_pre(data: xr.Dataset) -> Measured:
    """Token similarity after the last layer, Post-Norm minus Pre-Norm, seed by seed."""
    post, pre = (at_standard(data, placement, "ffn")["tsim_y"].isel(layer=-1) for placement in PLACEMENTS)
    return over_seeds(post - pre)


def amount_over_depth(data: xr.Dataset) -> Measured:
    """Amount of attention s in the last layer over that in the first, Pre-Norm."""
    amount = at_standard(data, "pre", "attention")["amount"]
    return over_seeds(amount.isel(layer=-1) / amount.isel(layer=0))


def amount_linearity(data: xr.Dataset) -> Measured:
    """R^2 of a straight line through 1/s against the layer, Pre-Norm, with the sign of its slope.

    Raises:
        NotMeasured: with fewer than three layers.
    """
    amount = at_standard(data, "pre", "attention")["amount"]
    if amount.sizes["layer"] < 3:
        raise NotMeasured("three layers")

    def fit(part: xr.Dataset) -> float:
        inverse = (1 / part["amount"]).mean("seed", skipna=False).values
        correlation = float(np.corrcoef(part["layer"].values, inverse)[0, 1])
        return correlation * abs(correlation)

    return by_jackknife(amount.to_dataset(), fit)


def amount_deviation(data: xr.Dataset) -> Measured:
    """Relative deviation of the amount of attention in each layer from that in the first, Post-Norm."""
    amount = at_standard(data, "post", "attention")["amount"]
    return Measured(abs(amount / amount.isel(layer=0) - 1).values)


def deescalation_steps(data: xr.Dataset, depth: str) -> Measured:
    """Decrease of token similarity from each a to the next after the `last` or the `first` attention, Post-Norm."""
    found = along(data, "deescalation", "post", "attention").isel(layer=-1 if depth == "last" else 0)
    return over_seeds(-found["tsim_y"].diff("deescalation"))


def remaining_growth(data: xr.Dataset) -> Measured:
    """Growth of token similarity over the depth at a = 1 over that at a = 0, Post-Norm."""
    found = along(data, "deescalation", "post", "ffn")
    start = at_standard(data, "post", "attention")["tsim_x"].isel(layer=0)
    left, full = (select(found, deescalation=a)["tsim_y"].isel(layer=-1) - start for a in (1.0, 0.0))
    require_growth(full)
    return ratio_of_means(left, full)


def vanishing_increment(data: xr.Dataset) -> Measured:
    """Attention's increments summed over layers at a = 1, over the same at a = 0, by placement."""

    def share(placement: str) -> Measured:
        left, full = (
            at_standard(data, placement, "attention", deescalation=a)["increment"].sum("layer", skipna=False)
            for a in (1.0, 0.0)
        )
        require_growth(full)
        return ratio_of_means(left, full)

    return several(share(placement) for placement in PLACEMENTS)


def saturation(data: xr.Dataset, *, compared: bool) -> Measured:
    """Attention's increment in the last layer over the largest of all layers, at the largest variance, Post-Norm.

    Args:
        data: The increments.
        compared: Subtract the same share under Pre-Norm.
    """

    def last_share(part: xr.Dataset) -> xr.DataArray:
        increment = part["increment"].mean("seed", skipna=False)
        shares = increment.isel(layer=-1) / increment.max("layer", skipna=False)
        return shares.sel(placement="post") - shares.sel(placement="pre") if compared else shares

    chosen = PLACEMENTS if compared else ("post",)
    settings = [along(data, "variance_scale", placement, "attention").isel(variance_scale=-1) for placement in chosen]
    for setting in settings:
        require_growth(setting["increment"].sum("layer", skipna=False))
    return by_jackknife(xr.concat(settings, "placement") if compared else settings[0], last_share)


def damping(data: xr.Dataset) -> Measured:
    """The FFN's increments summed over layers, by placement."""
    increments = (at_standard(data, placement, "ffn")["increment"] for placement in PLACEMENTS)
    return several(over_seeds(increment.sum("layer", skipna=False)) for increment in increments)


def damping_share(data: xr.Dataset) -> Measured:
    """Decrease of token similarity by the FFN over the increase by attention, both summed over layers, by placement."""

    def share(placement: str) -> Measured:
        ffn, attention = (
            at_standard(data, placement, sublayer)["increment"].sum("layer", skipna=False)
            for sublayer in ("ffn", "attention")
        )
        require_growth(attention)
        return ratio_of_means(-ffn, attention)

    return several(share(placement) for placement in PLACEMENTS)


def damping_over_bound(data: xr.Dataset, variable: str) -> Measured:
    """Mean over seeds of an increment of the FFN (`variable`) over xi m(1), by placement and layer."""
    largest = float(swiglu_moment(1.0, 1 / 3))
    sites = (at_standard(data, placement, "ffn") for placement in PLACEMENTS)
    return several(over_seeds(site[variable] / (site["amount"] * largest)) for site in sites)


_EVIDENCE = ("increments",)
CLAIMS = (
    Claim(
        "attention-increment-positive", "attention raises token similarity in every layer", "Theorem 3.2", "1",
        "mean over seeds of attention's increment, smallest over placements and layers", Range(low=0), _EVIDENCE,
        attention_increments,
    ),
    Claim(
        "attention-formula-rank", "attention's increment is large where the closed form is large", "Section 4.1", "1",
        "rank correlation of predicted and measured increments over layers and variances, smaller of both placements",
        Range(low=0.5), _EVIDENCE, rank_agreement,
    ),
    Claim(
        "attention-formula-scale", "the closed form has the scale of attention's increment", "Section 4.1", "1",
        "predicted over measured, summed over layers, the furthest off of all variances and placements",
        Range(0.5, 2), _EVIDENCE, partial(scale_agreement, sublayer="attention"),
    ),
    Claim(
        "attention-increases-with-amount", "attention's increment grows with the amount of attention",
        "Remark to Theorem 3.2", "1",
        "growth of layer 1's increment from one variance to the next, where t is the same; smallest", Range(low=0),
        _EVIDENCE, variance_steps,
    ),
    Claim(
        "post-above-pre", "at depth, Post-Norm has more token similarity than Pre-Norm", "Section 3.1", "1",
        "token similarity behind the last layer, Post-Norm minus Pre-Norm", Range(low=0), _EVIDENCE, post_above_pre,
    ),
    Claim(
        "amount-falls-pre", "under Pre-Norm the amount of attention falls with depth", "Section 3.1", "1",
        "s of the last layer over s of the first", Range(high=1), _EVIDENCE, amount_over_depth,
    ),
    Claim(
        "amount-rate-pre", "under Pre-Norm the amount of attention falls like 1/l", "Section 3.1", "1",
        "R^2 of a straight line through 1/s against the layer l; negative if 1/s falls", Range(low=0.99), _EVIDENCE,
        amount_linearity,
    ),
    Claim(
        "amount-constant-post", "under Post-Norm the amount of attention is the same in every layer", "Section 3.1",
        "1", "relative deviation from s of the first layer, largest", Range(high=1e-3), _EVIDENCE, amount_deviation,
    ),
    Claim(
        "post-saturates", "Post-Norm saturates: attention's increment drops to near zero", "Section 4.1", "1",
        "attention's increment in the last layer over the largest of all layers, at the largest variance",
        Range(-0.25, 0.25), _EVIDENCE, partial(saturation, compared=False),
    ),
    Claim(
        "post-saturates-more", "Post-Norm saturates more than Pre-Norm", "Section 4.1", "1",
        "last over largest increment of attention, at the largest variance, Post-Norm minus Pre-Norm", Range(high=0),
        _EVIDENCE, partial(saturation, compared=True),
    ),
    Claim(
        "deescalation-monotone", "the more of C_n is taken away, the less token similarity at depth", "Section 4.1",
        "2", "fall of token similarity behind the last attention from one a to the next, Post-Norm; smallest",
        Range(low=0), _EVIDENCE, partial(deescalation_steps, depth="last"),
    ),
    Claim(
        "deescalation-one-step", "one step's token similarity falls with a", "Corollary 3.3", "2",
        "fall of token similarity behind the first attention from one a to the next, Post-Norm; smallest",
        Range(low=0), _EVIDENCE, partial(deescalation_steps, depth="first"),
    ),
    Claim(
        "deescalation-removes-growth", "a = 1 removes most of the growth of token similarity", "Section 4.1", "2",
        "growth over the depth with a = 1 over growth with a = 0, Post-Norm", Range(high=0.5), _EVIDENCE,
        remaining_growth,
    ),
    Claim(
        "deescalation-vanishes", "at a = 1 attention's increase of token similarity vanishes", "Corollary 3.3", "2",
        "attention's increments summed over layers, a = 1 over a = 0, the furthest off of both placements",
        Range(-0.1, 0.1), _EVIDENCE, vanishing_increment,
    ),
    Claim(
        "ffn-damps", "the FFN lowers token similarity", "Theorem 3.4", "1",
        "increments of the FFN summed over layers, larger of both placements", Range(high=0), _EVIDENCE, damping,
    ),
    Claim(
        "ffn-damping-smaller", "the FFN damps much less than attention raises", "Section 4.1", "1",
        "-1 times the FFN's increments over attention's, both summed over layers, the furthest out of both placements",
        Range(0, 0.25), _EVIDENCE, damping_share,
    ),
    Claim(
        "ffn-formula-scale", "the closed form tracks the FFN's increment", "Figure 1", "1",
        "predicted over measured, summed over layers, the furthest off of all variances and placements",
        Range(0.5, 2), _EVIDENCE, partial(scale_agreement, sublayer="ffn"),
    ),
    Claim(
        "ffn-bound-predicted", "|Delta_FFN| of the closed form is at most xi m(1)", "Remark to Theorem 3.4", "1",
        "increment over xi m(1), the furthest out over placements and layers", Range(-1, 1, closed=True), _EVIDENCE,
        partial(damping_over_bound, variable="increment_predicted"),
    ),
    Claim(
        "ffn-bound-measured", "the FFN changes token similarity by at most xi m(1)", "Remark to Theorem 3.4", "1",
        "mean over seeds of the increment over xi m(1), the furthest out over placements and layers",
        Range(-1, 1, closed=True), _EVIDENCE, partial(damping_over_bound, variable="increment"),
    ),
)  # fmt: skip
"""Claims that the increments decide."""
