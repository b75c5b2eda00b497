"""Claims about the closed forms: the maximum of f1, the moment m(rho), and concentration with growing width."""

from functools import partial

import numpy as np
import xarray as xr

from collapse.analysis.uncertainty import Measured, NotMeasured, over_seeds
from collapse.claims.judging import SAMPLED, Claim, Range
from collapse.store.dataset import spec_of
from collapse.theory.attention import f1

LENGTHS = (2, 16, 128, 2048, 1_000_000)
"""Sequence lengths n at which the maximum of f1 is located."""
GRID = np.linspace(0, 1, 20_001)
"""Values of t."""
XI = 1 / 9
"""xi at standard initialization."""
ENOUGH_DRAWS = 1000
"""With fewer draws the standard error of a Monte Carlo mean is too uncertain to compare with."""


def peak_deviation() -> Measured:
    """Distance of the maximum of f1 on the grid from (n - 1)/(2 n), for each length."""
    return Measured([abs(GRID[np.argmax(f1(GRID, n))] - (n - 1) / (2 * n)) for n in LENGTHS])


def _standard(data: xr.Dataset) -> xr.Dataset:
    """m(rho) at standard initialization, rho ascending.

    Raises:
        NotMeasured: where the dataset does not have that variance.
    """
    at = np.flatnonzero(np.isclose(data["preact_variance"].values, 1 / 3, rtol=1e-9))
    if not len(at):
        raise NotMeasured("preact_variance 1/3")
    return data.isel(preact_variance=int(at[0])).sortby("rho")


def moment(data: xr.Dataset, rho: float, factor: float = 1.0) -> Measured:
    """m(rho) by quadrature at standard initialization, times a factor.

    Raises:
        NotMeasured: where the dataset does not have that rho.
    """
    found = _standard(data)
    if rho not in found["rho"].values:
        raise NotMeasured(f"rho {rho}")
    return Measured(factor * float(found["moment"].sel(rho=rho)))


def moment_steps(data: xr.Dataset) -> Measured:
    """Differences of m between neighbouring values of rho in [0, 1], at standard initialization."""
    return Measured(_standard(data)["moment"].diff("rho").values)


def _in_errors(data: xr.Dataset, distance: xr.DataArray, error: xr.DataArray) -> Measured:
    """Absolute distances of Monte Carlo means in units of their standard errors.

    Raises:
        NotMeasured: with fewer than `ENOUGH_DRAWS` draws.
    """
    if spec_of(data)["draws"] < ENOUGH_DRAWS:
        raise NotMeasured(f"{ENOUGH_DRAWS} draws")
    return Measured((abs(distance) / error).values)


def sampling_distance(data: xr.Dataset) -> Measured:
    """|Monte Carlo - quadrature| of m in standard errors, by variance and rho."""
    return _in_errors(data, data["moment_sampled"] - data["moment"], data["moment_sampled_se"])


def _over_realizations(values: xr.DataArray) -> Measured:
    """Means over realizations of X, W_1 and W_3, with their standard errors."""
    return over_seeds(values.rename(realization="seed"))


def width_slope(data: xr.Dataset) -> Measured:
    """Slopes of ln(standard deviation of xi) against ln(width), by branch and quantity.

    Raises:
        NotMeasured: with fewer than two widths.
    """
    if data.sizes["width"] < 2:
        raise NotMeasured("two widths")
    x = np.log(data["width"])
    x = x - x.mean()
    return _over_realizations((np.log(data["deviation"]) * x).sum("width", skipna=False) / (x**2).sum())


def exponent_ratio(data: xr.Dataset) -> Measured:
    """Largest constant c that sampled tails allow, at the largest width over the smallest, by branch and quantity.

    Raises:
        NotMeasured: with fewer than two widths.
    """
    if data.sizes["width"] < 2:
        raise NotMeasured("two widths")
    c = data["exponent"].where(np.isfinite(data["exponent"])).sortby("width")
    return _over_realizations(c.isel(width=-1, drop=True) / c.isel(width=0, drop=True))


def center_distance(data: xr.Dataset) -> Measured:
    """|Mean of xi over draws - its stated expectation| in standard errors, by branch, quantity, width, realization."""
    return _in_errors(data, data["mean"] - data["expected"], data["mean_se"])


def premise(data: xr.Dataset) -> Measured:
    """||R_s||_F^2 and ||Pi R_s||_F^2 over their expectations, by width.

    The lemma assumes this of every R_s, not only of their mean. The error is therefore that of one more realization.

    Raises:
        NotMeasured: where the FFN branch was not measured.
    """
    if "ffn" not in data["branch"].values:
        raise NotMeasured("branch ffn")
    mean, error, degrees = _over_realizations(data["premise"].sel(branch="ffn"))
    return Measured(mean, np.asarray(error) * (data.sizes["realization"] + 1) ** 0.5, degrees)


_MOMENT, _CONCENTRATION = ("swiglu_moment",), ("concentration",)
CLAIMS = (
    Claim(
        "increment-peak", "f1, the growth for little attention, is largest at t = (n - 1)/(2 n)",
        "Remark to Theorem 3.2", "", "distance of its maximum on a grid of step 5e-5, largest of five lengths n",
        Range(high=5.1e-5), (), peak_deviation,
    ),
    Claim(
        "swiglu-coefficient", "xi m(1) is about 0.011", "Remark to Theorem 3.4", "7",
        "m(1)/9 by quadrature at standard initialization", Range(0.0105, 0.0115), _MOMENT,
        partial(moment, rho=1.0, factor=XI),
    ),
    Claim(
        "swiglu-moment-zero", "m(0) is about 0.006", "Appendix C.4", "7",
        "m(0) by quadrature at standard initialization", Range(0.0055, 0.0065), _MOMENT, partial(moment, rho=0.0),
    ),
    Claim(
        "swiglu-moment-one", "m(1) is about 0.100", "Appendix C.4", "7",
        "m(1) by quadrature at standard initialization", Range(0.0995, 0.1005), _MOMENT, partial(moment, rho=1.0),
    ),
    Claim(
        "swiglu-moment-increases", "m(rho) increases on [0, 1)", "Remark to Theorem 3.4", "7",
        "difference of m between neighbouring points of rho at standard initialization, smallest", Range(low=0),
        _MOMENT, moment_steps,
    ),
    Claim(
        "swiglu-moment-sampled", "Monte Carlo agrees with the quadrature of m(rho)", "Theorem 3.4", "7",
        "distance in standard errors, largest over rho and variances", Range(high=SAMPLED, closed=True), _MOMENT,
        sampling_distance,
    ),
    Claim(
        "concentration-rate", "xi_1 and xi_2 concentrate at width scale", "Lemmas C.11 and C.12", "",
        "slope of ln(standard deviation) against ln(width), mean over realizations, the furthest off",
        Range(-0.65, -0.35), _CONCENTRATION, width_slope,
    ),
    Claim(
        "concentration-constant", "the bounds' constant c does not shrink with width", "Lemmas C.11 and C.12", "",
        "largest c that sampled tails allow, largest width over smallest, mean over realizations, least",
        Range(low=0.5), _CONCENTRATION, exponent_ratio,
    ),
    Claim(
        "concentration-centers", "E[xi_1] and E[xi_2] given X and P, or X and R_s, are as stated", "Lemma C.11", "",
        "distance of sampled means in standard errors, largest by branch, quantity, width and realization",
        Range(high=SAMPLED, closed=True), _CONCENTRATION, center_distance,
    ),
    Claim(
        "concentration-premise", "R_s is at most twice its expected size, as the lemma assumes", "Lemma C.12", "",
        "||R_s||^2 and ||Pi R_s||^2 over their expectations, mean over realizations, largest over widths",
        Range(high=2, closed=True), _CONCENTRATION, premise,
    ),
)  # fmt: skip
"""Claims that the closed forms and their Monte Carlo evaluation decide."""
