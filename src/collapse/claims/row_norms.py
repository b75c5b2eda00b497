"""Claims about row norms at initialization and about RMSNorm, read from the increments (Appendix C.5).

Unless a function names another setting: text as input, standard variance, a = 0.
"""

import numpy as np
import xarray as xr

from collapse.analysis.uncertainty import SMALLEST_SAMPLE, Measured, NotMeasured, by_jackknife, over_seeds
from collapse.claims.initialization import at_standard
from collapse.claims.judging import Claim, Range
from collapse.theory.normalization import rms_similarity_bounds

ROUNDING = 1e-5
"""Rounding error of token similarities in float32."""


def ffn_profile(data: xr.Dataset) -> Measured:
    """Relative deviation of mean squared row norms after the FFN from their mean over positions, Post-Norm."""
    rows = at_standard(data, "post", "ffn")["row_square"].mean("layer", skipna=False)
    return over_seeds(rows / rows.mean("position", skipna=False) - 1)


def attention_profile(data: xr.Dataset) -> Measured:
    """Squared relative deviation of what attention adds to squared row norms from Lemma C.5, Post-Norm.

    Noise of the seeds increases the squared deviation by the sum, over positions, of the squared standard errors. This
    sum is subtracted, so the result can be negative.

    Raises:
        NotMeasured: with fewer than `SMALLEST_SAMPLE` seeds.
    """

    def deviation(part: xr.Dataset) -> float:
        profile = part[["row_square", "row_square_predicted"]].mean("layer", skipna=False)
        difference = profile["row_square"] - profile["row_square_predicted"]
        noise = difference.var("seed", ddof=1, skipna=False) / difference.sizes["seed"]
        stated = profile["row_square_predicted"].mean("seed", skipna=False) - 1
        return float(((difference.mean("seed", skipna=False) ** 2 - noise).sum(skipna=False)) / (stated**2).sum())

    found = at_standard(data, "post", "attention")
    if found.sizes["seed"] < SMALLEST_SAMPLE:
        raise NotMeasured("several seeds")
    return by_jackknife(found, deviation)


def attention_profile_fall(data: xr.Dataset) -> Measured:
    """Mean squared row norm after attention at the first position minus that at the last one, Post-Norm."""
    rows = at_standard(data, "post", "attention")["row_square"].mean("layer", skipna=False)
    return over_seeds(rows.isel(position=0) - rows.isel(position=-1))


def rms_violations(data: xr.Dataset) -> Measured:
    """Number of sublayers, over all settings and seeds, whose token similarity after RMSNorm violates Theorem C.6."""
    t, eta, after = (data[name].values for name in ("tsim_y", "rms_spread", "tsim_normed"))
    stated = np.isfinite(t) & np.isfinite(after) & (eta < 1)
    low, high = rms_similarity_bounds(np.clip(t[stated], 0, 1), eta[stated])
    outside = (after[stated] < low - ROUNDING) | (after[stated] > high + ROUNDING)
    return Measured(float(outside.sum()) if stated.any() else np.nan)


_EVIDENCE = ("increments",)
CLAIMS = (
    Claim(
        "ffn-row-norms", "squared row norms behind the FFN do not depend on the position", "Lemma C.4", "",
        "relative deviation of their mean over layers and seeds, the furthest off over positions, Post-Norm",
        Range(-0.02, 0.02), _EVIDENCE, ffn_profile,
    ),
    Claim(
        "attention-row-norms", "squared row norms behind attention follow alpha + beta/i", "Lemma C.5", "",
        "mean square over positions of measured minus stated, less noise, over that of what the branch adds, Post-Norm",
        Range(high=0.0625), _EVIDENCE, attention_profile,
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
"""Claims that row norms decide."""
