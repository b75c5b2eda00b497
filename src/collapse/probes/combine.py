"""One Dataset from the slices of seeds of a probe."""

from collections.abc import Sequence

import xarray as xr


def join(slices: Sequence[xr.Dataset]) -> xr.Dataset:
    """Datasets of different seeds as one; what has no dimension `seed` is taken from the first."""
    return xr.concat(slices, "seed", data_vars="minimal", coords="minimal", compat="override", join="exact")
