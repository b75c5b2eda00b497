"""Settings of the increments, as the claims about them take them."""

import xarray as xr

from collapse.claims.judging import Measured, NotMeasured, Range, by_jackknife, over_seeds, select

STANDARD: dict[str, str | float] = {"input": "tokens", "variance_scale": 1.0, "deescalation": 0.0}
PLACEMENTS = ("post", "pre")


def at_standard(data: xr.Dataset, placement: str, sublayer: str, **other: str | float) -> xr.Dataset:
    """The part of the increments at a sublayer and the standard settings, but for those that are named."""
    return select(data, **{**STANDARD, "placement": placement, "sublayer": sublayer, **other})


def along(data: xr.Dataset, axis: str, placement: str, sublayer: str, least: int = 2) -> xr.Dataset:
    """All measured values of one setting, ascending, the other at its standard.

    Raises:
        NotMeasured: where there are fewer than `least`.
    """
    fixed = {name: value for name, value in STANDARD.items() if name != axis}
    found = select(data, **{**fixed, "placement": placement, "sublayer": sublayer})
    found = found.isel({axis: found["tsim_x"].notnull().any(("seed", "layer")).values}).sortby(axis)
    if found.sizes[axis] < least:
        raise NotMeasured(f"{axis} at {least} values or more, for {placement} {sublayer}")
    return found


def require_growth(increments: xr.DataArray) -> None:
    """Makes sure that increments, of a dim seed, are a growth that others can be measured by.

    Raises:
        NotMeasured: where their mean is not clearly positive.
    """
    if Range(low=0).judge(over_seeds(increments))[1] != "holds":
        raise NotMeasured("a growth of token similarity to compare with")


def ratio_of_means(part: xr.DataArray, whole: xr.DataArray) -> Measured:
    """A mean over seeds over another, of values with the dim seed."""
    both = xr.Dataset({"part": part, "whole": whole}, {"seed": whole["seed"]})
    return by_jackknife(both, lambda data: data["part"].mean("seed") / data["whole"].mean("seed"))
