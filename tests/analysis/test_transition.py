from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import xarray as xr
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from collapse.analysis.transition import Transition, find_transition, loss_before
from collapse.config.analysis import AnalysisConfig
from collapse.config.record import RecordConfig

CONFIG = AnalysisConfig()
LEVEL = 0.25


def logistic(steps: int, middle: float, width: float) -> np.ndarray:
    return 1 / (1 + np.exp(-(np.arange(steps) - middle) / width))


def curve(*turns: float, steps: int = 420, width: float = 3.0, level: float = LEVEL) -> np.ndarray:
    """Token similarity that starts at a level and goes to 1 and back at each turn."""
    share = sum((logistic(steps, middle, width) * (-1) ** i for i, middle in enumerate(turns)), np.zeros(steps))
    return level + (1 - level) * share


def find(t: np.ndarray, config: AnalysisConfig = CONFIG) -> Transition:
    return find_transition(np.arange(len(t)), t, config)


def tenth(middle: float, width: float = 3.0) -> float:
    """Where a logistic rise is at 10 %."""
    return middle - width * np.log(9)


def test_a_sharp_rise() -> None:
    found = find(curve(250))
    assert found.collapsed
    assert found.step == pytest.approx(tenth(250), abs=2)
    assert found.settled == pytest.approx(250 + 3 * np.log(74), abs=2)
    assert found.length == found.settled - found.step


def test_a_run_that_does_not_collapse() -> None:
    for t in (curve(), curve(level=0.01), curve(40, 110), curve(20, 50, 90, 150)):
        assert not find(t).collapsed
        assert np.isnan([find(t).step, find(t).settled, find(t).length]).all()


def test_a_dip_that_is_repaired_is_not_the_transition() -> None:
    assert find(curve(40, 110, 280)).step == pytest.approx(tenth(280), abs=2)
    assert find(curve(30, 60, 120, 150, 300)).step == pytest.approx(tenth(300), abs=2)


def test_a_dip_that_is_never_repaired_is_the_transition() -> None:
    assert find(curve(30)).step == pytest.approx(tenth(30), abs=2)
    assert find(curve(3, width=1)).step <= 2


def test_a_relapse_that_repairs_nothing_is_part_of_the_collapse() -> None:
    t = curve(100)
    t[200:215] = 0.95
    found = find(t)
    assert found.step == pytest.approx(tenth(100), abs=2)
    assert found.settled == 215
    t[200:215] = 0.8
    assert find(t).step >= 200


def test_collapsed_from_the_first_step() -> None:
    assert find(np.full(100, 0.999)) == Transition(True, 0, 0)


def test_high_from_the_first_step() -> None:
    found = find(curve(60, level=0.95))
    assert found.collapsed
    assert found.step == pytest.approx(tenth(60), abs=2)


def test_a_collapse_too_late_to_tell() -> None:
    assert not find(curve(410, width=1)).collapsed
    assert find(curve(410, width=1), AnalysisConfig(final_steps=2, smoothing_steps=1)).collapsed


def test_slow_drift_before_a_sharp_rise() -> None:
    """The level that the rise leaves is the one just before it, not that of a thousand steps ago."""
    drift = np.linspace(0.1, 0.5, 1500)
    t = drift + (1 - drift) * logistic(1500, 1400, 3)
    assert find(t).step == pytest.approx(tenth(1400), abs=6)


@pytest.mark.parametrize("width", [1.0, 5.0, 20.0, 40.0])
def test_slow_and_sharp_rises(width: float) -> None:
    found = find(curve(600, steps=1200, width=width))
    assert found.step == pytest.approx(tenth(600, width), abs=2 + 0.1 * width)


def test_a_rise_over_the_whole_run() -> None:
    found = find(np.minimum(np.linspace(0, 1.05, 420), 1))
    assert found.step == pytest.approx(40, abs=2)
    assert found.settled == pytest.approx(396, abs=6)


@given(st.integers(0, 300), st.integers(-50, 10_000))
def test_moves_with_the_curve(wait: int, first: int) -> None:
    """Waiting longer at the level before the rise, or counting steps from elsewhere, moves the transition along."""
    t = curve(120, steps=300)
    later = np.concatenate([np.full(wait, t[0]), t])
    before, after = find(t), find_transition(first + np.arange(len(later)), later, CONFIG)
    assert after.step == first + wait + before.step
    assert after.settled == first + wait + before.settled


@given(st.integers(0, 2**32 - 1), st.floats(0, 0.04), st.sampled_from([(280,), (40, 110, 280), (30,)]))
def test_noise_moves_it_little(seed: int, scale: float, turns: tuple[float, ...]) -> None:
    """Batch noise, which vanishes in the collapsed state, moves it by less than the rise takes."""
    t = curve(*turns, width=4)
    noise = scale * np.random.default_rng(seed).standard_normal(len(t))
    found, clean = find(np.clip(t + noise * np.sqrt(1 - t), 0, 1)), find(t)
    assert found.collapsed
    assert found.step == pytest.approx(clean.step, abs=12)
    assert found.settled == pytest.approx(clean.settled, abs=12)


@given(arrays(bool, 420, elements=st.booleans()))
def test_unmeasured_steps_are_left_out(measured: np.ndarray) -> None:
    t = curve(250, width=6)
    t[measured] = np.nan
    t[::4] = curve(250, width=6)[::4]
    assert find(t).step == pytest.approx(find(curve(250, width=6)).step, abs=12)


def test_nothing_measured() -> None:
    assert not find(np.full(30, np.nan)).collapsed
    assert not find(np.array([])).collapsed


@given(
    arrays(
        float,
        st.integers(0, 60),
        elements=st.one_of(st.floats(0, 1), st.floats(0.98, 1), st.just(1.0), st.just(np.nan)),
    ),
    st.integers(1, 30),
    st.integers(1, 11),
)
def test_whatever_the_curve(t: np.ndarray, final_steps: int, smoothing_steps: int) -> None:
    found = find(t, AnalysisConfig(final_steps=final_steps, smoothing_steps=smoothing_steps))
    measured = np.flatnonzero(np.isfinite(t))
    if not found.collapsed:
        assert np.isnan(found.step)
        assert np.isnan(found.settled)
    else:
        assert found.step in measured
        assert found.settled in measured
        assert found.step <= found.settled <= measured[-1]
    if smoothing_steps == 1 and len(measured):
        assert found.collapsed == (t[measured][-final_steps:] > CONFIG.collapsed_tsim).all()


def test_thresholds_are_the_configs() -> None:
    t = 0.97 * curve(250)
    assert not find(t).collapsed
    assert find(t, AnalysisConfig(collapsed_tsim=0.95)).collapsed
    late, early = (find(curve(250), AnalysisConfig(rise_fraction=share)).step for share in (0.5, 0.02))
    assert late - early == pytest.approx(3 * np.log(49), abs=2)


def with_loss(loss: np.ndarray) -> xr.Dataset:
    return xr.Dataset({"loss": ("step", loss)}, {"step": np.arange(len(loss))})


def test_loss_before_the_transition() -> None:
    loss = np.concatenate([np.linspace(7, 5, 200), np.full(50, 5.0), np.linspace(5, 6.4, 50)])
    assert loss_before(with_loss(loss), 250, CONFIG) == pytest.approx(5.0)
    assert loss_before(with_loss(loss), 100, CONFIG) == pytest.approx(loss[80:100].mean())
    assert loss_before(with_loss(loss), np.nan, CONFIG) == pytest.approx(5.0)


def test_loss_before_the_transition_is_no_lucky_batch() -> None:
    loss = np.full(100, 6.0)
    loss[50] = 1.0
    assert loss_before(with_loss(loss), 90, CONFIG) == pytest.approx(6 - 5 / CONFIG.final_steps)


def test_loss_before_an_early_transition() -> None:
    loss = np.array([7.0, 6.0, np.nan, 5.0])
    assert loss_before(with_loss(loss), 2, CONFIG) == 6.5
    assert loss_before(with_loss(loss), np.nan, CONFIG) == 6.0
    assert np.isnan(loss_before(with_loss(loss), 0, CONFIG))


def test_loss_before_where_steps_are_missing() -> None:
    """Means are over the recorded ones of so many consecutive steps, however many that is."""
    run = with_loss(np.linspace(7, 5, 200)).isel(step=[*range(0, 150, 30), *range(150, 180), 199])
    assert loss_before(run, 180, CONFIG) == pytest.approx(float(run["loss"].sel(step=slice(160, 179)).mean()))
    assert loss_before(run, 150, CONFIG) == float(run["loss"].sel(step=120))
    assert loss_before(run, 15, CONFIG) == 7.0


def policy(steps: int, every: int, *dense: tuple[int, int]) -> list[int]:
    return RecordConfig(every=every, dense=list(dense)).recorded(steps)


@given(st.integers(1, 12), st.integers(0, 150))
def test_a_transition_in_a_dense_window_is_where_it_is_with_every_step(every: int, margin: int) -> None:
    t = curve(40, 110, 280)
    kept = policy(len(t), every, (265 - min(margin, 150), 400))
    full, sparse = find(t), find_transition(kept, t[kept], CONFIG)
    assert sparse.collapsed
    assert (sparse.step, sparse.settled) == (full.step, full.settled)


@pytest.mark.parametrize("every", [2, 5, 10, 20])
def test_without_a_window_a_transition_is_found_as_well_as_it_was_recorded(every: int) -> None:
    t = curve(40, 110, 280, width=10)
    kept = policy(len(t), every)
    full, sparse = find(t), find_transition(kept, t[kept], CONFIG)
    assert sparse.collapsed
    assert full.step - every <= sparse.step <= full.step + 2 * every
    assert abs(sparse.settled - full.settled) <= 2 * every
    assert {sparse.step, sparse.settled} <= set(kept)


def test_the_end_of_a_sparse_run_is_its_last_steps_not_its_last_records() -> None:
    """Every 50th step: twenty records would reach back to where the run had not collapsed yet."""
    t = curve(500, steps=1000)
    kept = policy(len(t), 50)
    assert find_transition(kept, t[kept], CONFIG).collapsed


def test_repaired_is_below_collapsed() -> None:
    with pytest.raises(ValueError, match="must not exceed"):
        AnalysisConfig(collapsed_tsim=0.8)


def test_made_up_runs(make_run: Callable[..., xr.Dataset]) -> None:
    for kind, step in (("collapsing", 300), ("early", 40)):
        run = make_run(kind)
        assert find_transition(run["step"], run["tsim_final"], CONFIG).step == pytest.approx(step - 9, abs=5)


def recorded(name: str) -> xr.Dataset:
    """Loss and last-layer token similarity of a real run; where they come from is in the file's head."""
    path = Path(__file__).parent / "data" / f"{name}.csv"
    return xr.Dataset.from_dataframe(pd.read_csv(path, comment="#", index_col="step"))


def test_a_real_run_that_repairs_its_dip_and_then_collapses() -> None:
    run = recorded("repaired-then-collapsed")
    dip, late = run["tsim_final"][:120], run["tsim_final"][330:]
    assert dip.max() > 0.999
    assert late.min() > 0.99
    found = find_transition(run["step"], run["tsim_final"], CONFIG)
    assert found.collapsed
    assert 280 <= found.step <= 305  # similarity leaves 0.3 for good
    assert 315 <= found.settled <= 330
    assert loss_before(run, found.step, CONFIG) < 6.42 - 0.5


def test_a_real_run_cut_where_its_dip_is_deepest() -> None:
    """As a run of 60 steps, it would be one that collapsed in its dip."""
    run = recorded("repaired-then-collapsed").isel(step=slice(0, 60))
    found = find_transition(run["step"], run["tsim_final"], CONFIG)
    assert found.collapsed
    assert 5 <= found.step <= 15


def test_a_real_run_that_repairs_its_dip_and_learns() -> None:
    run = recorded("repaired")
    assert run["tsim_final"].max() > 0.999
    assert not find_transition(run["step"], run["tsim_final"], CONFIG).collapsed
    assert loss_before(run, np.nan, CONFIG) < 6.42 - 1
