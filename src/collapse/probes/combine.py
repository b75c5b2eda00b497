"""One Dataset from the slices of a probe over seeds."""

from collections.abc import Sequence

import xarray as xr


def join(slices: Sequence[xr.Dataset]) -> xr.Dataset:
    """Concatenate Datasets of different seeds; variables without the dimension `seed` come from the first."""
    return xr.concat(slices, "seed", data_vars="minimal", coords="minimal", compat="override", join="exact")
