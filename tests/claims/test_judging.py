"""Verdicts on values with standard errors."""

import numpy as np
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import norm
from scipy.stats import t as student_t

from collapse.analysis.uncertainty import Measured, over_seeds
from collapse.claims.judging import Range

numbers = st.floats(-10, 10)


def t_quantile(degrees: float, compared: int) -> float:
    return float(-student_t.ppf(norm.sf(2) / compared, degrees))


entries_of_values = st.lists(
    st.tuples(numbers, st.floats(0, 3), st.sampled_from([2, 7, np.inf])), min_size=1, max_size=6
)


@given(entries_of_values, numbers, st.floats(0, 5), st.booleans())
def test_verdicts_of_many_values(
    entries: list[tuple[float, float, float]], low: float, width: float, closed: bool
) -> None:
    values, errors, degrees = (np.array(part) for part in zip(*entries, strict=True))
    high = low + width
    value, verdict = Range(low, high, closed).judge(Measured(values, errors, degrees))
    assert value in values
    sampled = sum(e > 0 for _, e, _ in entries)
    quantiles = [(t_quantile(k, 1), t_quantile(k, max(sampled, 1))) for _, _, k in entries]
    assert all(1.99 < alone <= among + 1e-9 for alone, among in quantiles)
    slack = 1e-9
    sites = list(zip(entries, quantiles, strict=True))
    if verdict == "holds":
        assert all(low <= v - (q - slack) * e and v + (q - slack) * e <= high for (v, e, _), (q, _) in sites)
    if verdict == "fails":
        assert any(v + (q - slack) * e <= low or v - (q - slack) * e >= high for (v, e, _), (_, q) in sites)
    if verdict == "undecided":
        assert not all(low < v - (q + slack) * e and v + (q + slack) * e < high for (v, e, _), (q, _) in sites)
        assert not any(v + (q + slack) * e < low or v - (q + slack) * e > high for (v, e, _), (_, q) in sites)
        assert sampled


@given(st.lists(numbers, min_size=1, max_size=6))
def test_an_unknown_error_or_value_decides_nothing(values: list[float]) -> None:
    bounds = Range(low=-100)
    assert bounds.judge(Measured(values, np.nan))[1] == "undecided"
    assert bounds.judge(Measured([*values, np.nan], 0.0))[1] == "undecided"
    assert bounds.judge(Measured([*values, -200, np.nan], 0.0)) == (-200, "fails")


def test_no_values_decide_nothing() -> None:
    assert Range(low=0).judge(Measured([]))[1] == "undecided"


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (Range(low=0), "> 0"),
        (Range(high=0.25), "< 0.25"),
        (Range(high=4, closed=True), "<= 4"),
        (Range(low=0.5, closed=True), ">= 0.5"),
        (Range(0.5, 2), "between 0.5 and 2"),
        (Range(0, 0, closed=True), "= 0"),
    ],
)
def test_thresholds_as_text(bounds: Range, text: str) -> None:
    assert str(bounds) == text


@pytest.mark.parametrize("seeds", [3, 4, 8, 32])
@pytest.mark.parametrize(("distance", "values"), [(0.0, 96), (1.0, 96), (1.0, 1), (3.0, 2)])
def test_pure_noise_fails_in_few_cases(seeds: int, distance: float, values: int) -> None:
    """True means at or inside the threshold, by so many standard errors: `fails` is chance."""
    rng = np.random.default_rng([seeds, values])
    cases, failed, held = 400, 0, 0
    for _ in range(cases):
        sample = xr.DataArray(rng.normal(distance, seeds**0.5, (seeds, values)), dims=("seed", "layer"))
        verdict = Range(low=0).judge(over_seeds(sample))[1]
        failed += verdict == "fails"
        held += verdict == "holds"
    assert failed / cases < (0.02 if distance else 0.0455)
    if distance == 0:
        assert held == 0
