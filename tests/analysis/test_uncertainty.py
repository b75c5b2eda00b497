"""Means and ratios over seeds, and their standard errors."""

import numpy as np
import pytest
import xarray as xr
from scipy.stats import t as student_t

from collapse.analysis.uncertainty import (
    GAPS,
    LEVEL,
    Measured,
    NotMeasured,
    by_jackknife,
    half_width,
    over_seeds,
    ratio_of_means,
    select,
    several,
    share_of_gap,
)


@pytest.fixture
def values() -> xr.DataArray:
    return xr.DataArray(np.random.default_rng(0).standard_normal((5, 3)), dims=("seed", "layer"))


def test_means_and_their_standard_errors(values: xr.DataArray) -> None:
    mean, error, degrees = over_seeds(values)
    np.testing.assert_allclose(mean, values.values.mean(0))
    np.testing.assert_allclose(error, values.values.std(0, ddof=1) / 5**0.5)
    assert degrees == 4
    values[1, 2] = np.nan
    assert list(np.isnan(over_seeds(values).values)) == [False, False, True]


def test_the_jackknife_of_a_mean_is_its_standard_error(values: xr.DataArray) -> None:
    mean, error, degrees = over_seeds(values)
    found = by_jackknife(xr.Dataset({"v": values}), lambda data: data["v"].mean("seed"))
    np.testing.assert_allclose(found.values, mean)
    np.testing.assert_allclose(found.errors, error)
    assert found.degrees == degrees == 4


def test_two_seeds_give_no_error(values: xr.DataArray) -> None:
    few = values.isel(seed=[0, 1])
    for found in (over_seeds(few), by_jackknife(few.to_dataset(name="v"), lambda data: data["v"].mean())):
        assert np.isnan(found.errors).all() and np.isfinite(found.values).all()


def test_a_ratio_of_proportional_values_is_certain() -> None:
    whole = xr.DataArray(np.random.default_rng(1).uniform(1, 2, 6), dims="seed")
    found = ratio_of_means(0.3 * whole, whole)
    assert float(np.asarray(found.values)) == pytest.approx(0.3)
    assert float(np.asarray(found.errors)) == pytest.approx(0, abs=1e-12)


def test_several_measurements_are_one() -> None:
    found = several([Measured([1.0, 2.0], 0.5, 3), Measured(4.0)])
    assert [list(np.asarray(part)) for part in found] == [[1, 2, 4], [0.5, 0.5, 0], [3, 3, np.inf]]


def test_half_widths() -> None:
    measured = Measured([1.0, 2.0], [0.1, 0.2], [3, np.inf])
    np.testing.assert_allclose(half_width(measured), [-0.1 * student_t.ppf(LEVEL / 2, 3), 0.4])
    assert (half_width(measured, 10) > half_width(measured)).all()
    assert half_width(Measured(1.0)) == 0


def test_what_was_not_measured_is_not_selected(values: xr.DataArray) -> None:
    data = values.assign_coords(layer=[1, 2, 4]).to_dataset(name="v")
    assert select(data, layer=4)["v"].dims == ("seed",)
    with pytest.raises(NotMeasured, match="layer 3"):
        select(data, layer=3)


def test_shares_of_a_gap_add_up() -> None:
    rng = np.random.default_rng(2)
    data = xr.Dataset({name: (("seed", "layer"), rng.normal(i - 1, 0.1, (4, 3))) for i, name in enumerate(GAPS)})
    shares = [share_of_gap(data, name) for name in GAPS]
    assert sum(float(np.asarray(share.values)) for share in shares) == pytest.approx(1)
    noisy = data.assign(gap_prefix_se=0.1 + 0 * data["gap_prefix"])
    assert all(share_of_gap(noisy, name).errors > share.errors for name, share in zip(GAPS, shares, strict=True))
