"""Claims about token similarity at initialization, read from the increments (figures 1 and 2, Appendix C.5).

Where no other setting is named: text as input, standard variance, a = 0.
"""

from functools import partial

import numpy as np
import xarray as xr

from collapse.analysis.claims_judging import (
    Claim,
    Measured,
    NotMeasured,
    Range,
    by_jackknife,
    over_seeds,
    select,
    several,
)
from collapse.theory.ffn import swiglu_moment
from collapse.theory.normalization import rms_similarity_bounds

STANDARD: dict[str, str | float] = {"input": "tokens", "variance_scale": 1.0, "deescalation": 0.0}
PLACEMENTS = ("post", "pre")
SIGNIFICANT = 2.0
"""Standard errors from which on an increment has a sign."""
ROUNDING = 1e-5
"""Of token similarities in float32."""


def _at(data: xr.Dataset, placement: str, sublayer: str, **other: str | float) -> xr.Dataset:
    return select(data, **{**STANDARD, "placement": placement, "sublayer": sublayer, **other})


def _along(data: xr.Dataset, axis: str, placement: str, sublayer: str) -> xr.Dataset:
    """All measured values of one setting, ascending, the other at its standard.

    Raises:
        NotMeasured: where there are fewer than two.
    """
    fixed = {name: value for name, value in STANDARD.items() if name != axis}
    found = select(data, **{**fixed, "placement": placement, "sublayer": sublayer})
    found = found.isel({axis: found["tsim_x"].notnull().any(("seed", "layer")).values}).sortby(axis)
    if found.sizes[axis] < 2:
        raise NotMeasured(f"two values of {axis}")
    return found


def attention_increments(data: xr.Dataset) -> Measured:
    """Mean increments of attention by placement and layer."""
    return several(over_seeds(_at(data, placement, "attention")["increment"]) for placement in PLACEMENTS)


def sign_agreement(data: xr.Dataset) -> Measured:
    """Share of layers, at all variances and placements, where the closed form's sign is that of the measured mean."""
    agrees: list[bool] = []
    for placement in PLACEMENTS:
        found = _along(data, "variance_scale", placement, "attention")
        mean, error = (np.asarray(part) for part in over_seeds(found["increment"]))
        clear = np.abs(mean) > SIGNIFICANT * error
        agrees += list((mean * found["increment_predicted"].mean("seed").values > 0)[clear])
    return Measured(np.mean(agrees) if agrees else np.nan)


def scale_agreement(data: xr.Dataset, sublayer: str) -> Measured:
    """Predicted over measured increments, both summed over layers, by placement and variance."""

    def ratio(part: xr.Dataset) -> xr.DataArray:
        sums = part[["increment_predicted", "increment"]].sum("layer", skipna=False).mean("seed", skipna=False)
        return sums["increment_predicted"] / sums["increment"]

    return several(by_jackknife(_along(data, "variance_scale", placement, sublayer), ratio) for placement in PLACEMENTS)


def variance_steps(data: xr.Dataset) -> Measured:
    """Growth of attention's increment in layer 1 from each variance to the next: there all have the same t."""
    first = (_along(data, "variance_scale", placement, "attention").isel(layer=0) for placement in PLACEMENTS)
    return several(over_seeds(layer["increment"].diff("variance_scale")) for layer in first)


def post_above_pre(data: xr.Dataset) -> Measured:
    """Token similarity behind the last layer, Post-Norm minus Pre-Norm, seed by seed."""
    post, pre = (_at(data, placement, "ffn")["tsim_y"].isel(layer=-1) for placement in PLACEMENTS)
    return over_seeds(post - pre)


def amount_over_depth(data: xr.Dataset) -> Measured:
    """Amount of attention in the last layer over that in the first, Pre-Norm."""
    amount = _at(data, "pre", "attention")["amount"]
    return over_seeds(amount.isel(layer=-1) / amount.isel(layer=0))


def amount_deviation(data: xr.Dataset) -> Measured:
    """Relative deviation of every layer's amount of attention from the first's, Post-Norm."""
    amount = _at(data, "post", "attention")["amount"]
    return Measured(abs(amount / amount.isel(layer=0) - 1).values)


def deescalation_steps(data: xr.Dataset, depth: str) -> Measured:
    """Fall of token similarity from each a to the next, Post-Norm: behind the `last` or the `first` attention."""
    found = _along(data, "deescalation", "post", "attention").isel(layer=-1 if depth == "last" else 0)
    return over_seeds(-found["tsim_y"].diff("deescalation"))


def remaining_growth(data: xr.Dataset) -> Measured:
    """Growth of token similarity over the depth with a = 1, over that with a = 0, Post-Norm."""
    found = _along(data, "deescalation", "post", "ffn")
    start = _at(data, "post", "attention")["tsim_x"].isel(layer=0)
    ends = [select(found, deescalation=a)["tsim_y"].isel(layer=-1) for a in (1.0, 0.0)]
    growth = xr.Dataset({"left": ends[0] - start, "full": ends[1] - start}, coords={"seed": data["seed"]})
    return by_jackknife(growth, lambda part: part["left"].mean("seed") / part["full"].mean("seed"))


def damping(data: xr.Dataset) -> Measured:
    """Increments of the FFN summed over layers, by placement."""
    increments = (_at(data, placement, "ffn")["increment"] for placement in PLACEMENTS)
    return several(over_seeds(increment.sum("layer", skipna=False)) for increment in increments)


def damping_share(data: xr.Dataset) -> Measured:
    """|Sum over layers of FFN increments| over that of attention's, by placement."""

    def share(part: xr.Dataset) -> xr.DataArray:
        sums = part["increment"].sum("layer", skipna=False).mean("seed", skipna=False)
        return abs(sums.sel(sublayer="ffn")) / sums.sel(sublayer="attention")

    both = [select(data, **{**STANDARD, "placement": placement}) for placement in PLACEMENTS]
    return several(by_jackknife(part, share) for part in both)


def damping_over_bound(data: xr.Dataset, variable: str) -> Measured:
    """An FFN increment over xi m(1), by placement and layer: the mean over seeds."""
    largest = float(swiglu_moment(1.0, 1 / 3))
    sites = (_at(data, placement, "ffn") for placement in PLACEMENTS)
    return several(over_seeds(site[variable] / (site["amount"] * largest)) for site in sites)


def ffn_profile(data: xr.Dataset) -> Measured:
    """Relative deviation of mean squared row norms behind the FFN from their mean over positions, Post-Norm."""
    rows = _at(data, "post", "ffn")["row_square"].mean("layer", skipna=False)
    return over_seeds(rows / rows.mean("position", skipna=False) - 1)


def attention_profile(data: xr.Dataset) -> Measured:
    """Relative rms deviation of the branch's part of squared row norms behind attention from Lemma C.5, Post-Norm."""

    def deviation(part: xr.Dataset) -> float:
        profile = part[["row_square", "row_square_predicted"]].mean(("layer", "seed"), skipna=False) - 1
        measured, predicted = profile["row_square"].values, profile["row_square_predicted"].values
        return float(np.linalg.norm(measured - predicted) / np.linalg.norm(predicted))

    return by_jackknife(_at(data, "post", "attention"), deviation)


def attention_profile_fall(data: xr.Dataset) -> Measured:
    """Mean squared row norm behind attention at the first position minus that at the last positions, Post-Norm."""
    rows = _at(data, "post", "attention")["row_square"].mean("layer", skipna=False)
    return over_seeds(rows.isel(position=0) - rows.isel(position=-1))


def rms_violations(data: xr.Dataset) -> Measured:
    """Number of sites, of all settings, where token similarity behind RMSNorm leaves the bounds of Theorem C.6."""
    t, eta, after = (data[name].values for name in ("tsim_y", "rms_spread", "tsim_normed"))
    stated = np.isfinite(t) & np.isfinite(after) & (eta < 1)
    low, high = rms_similarity_bounds(np.clip(t[stated], 0, 1), eta[stated])
    outside = (after[stated] < low - ROUNDING) | (after[stated] > high + ROUNDING)
    return Measured(float(outside.sum()) if stated.any() else np.nan)


_EVIDENCE = ("increments",)
CLAIMS = (
    Claim(
        "attention-increment-positive", "attention raises token similarity in every layer", "Theorem 3.2", "1",
        "mean over seeds of attention's increment, smallest over placements and layers", Range(low=0), _EVIDENCE,
        attention_increments,
    ),
    Claim(
        "attention-formula-sign", "the closed form has the sign of attention's increment", "Section 4.1", "1",
        "share of layers where it has, of all variances and placements where the mean is 2 standard errors from 0",
        Range(low=0.95), _EVIDENCE, sign_agreement,
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
        "amount-constant-post", "under Post-Norm the amount of attention is the same in every layer", "Section 3.1",
        "1", "relative deviation from s of the first layer, largest", Range(high=1e-3), _EVIDENCE, amount_deviation,
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
        "ffn-damps", "the FFN lowers token similarity", "Theorem 3.4", "1",
        "increments of the FFN summed over layers, larger of both placements", Range(high=0), _EVIDENCE, damping,
    ),
    Claim(
        "ffn-damping-smaller", "the FFN damps much less than attention raises", "Section 4.1", "1",
        "|sum over layers of the FFN's increments| over that of attention's, larger of both placements",
        Range(high=0.25), _EVIDENCE, damping_share,
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
    Claim(
        "ffn-row-norms", "squared row norms behind the FFN do not depend on the position", "Lemma C.4", "",
        "relative deviation of their mean over layers and seeds, the furthest off over positions, Post-Norm",
        Range(-0.02, 0.02), _EVIDENCE, ffn_profile,
    ),
    Claim(
        "attention-row-norms", "squared row norms behind attention follow alpha + beta/i", "Lemma C.5", "",
        "rms over positions of measured minus stated, over the rms of what the branch adds, Post-Norm",
        Range(high=0.25), _EVIDENCE, attention_profile,
    ),
    Claim(
        "attention-row-norms-fall", "behind attention the first row is longer than the last", "Lemma C.5", "",
        "difference of mean square entries, mean over layers, Post-Norm", Range(low=0), _EVIDENCE,
        attention_profile_fall,
    ),
    Claim(
        "rms-bounds", "token similarity behind RMSNorm is within its bounds wherever eta < 1", "Theorem C.6", "",
        "number of sublayers, of all settings and seeds, where it is not", Range(0, 0, closed=True), _EVIDENCE,
        rms_violations,
    ),
)  # fmt: skip
"""Claims that the increments decide."""
