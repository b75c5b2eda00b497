"""When a run collapsed: the sharp rise of last-layer token similarity, from stored metrics only.

Let t(s) be the last-layer token similarity at the measured (recorded, finite) steps s, smoothed by a running median
over `smoothing_steps` of them. A run may have recorded only some steps: lengths are differences of step numbers, and
"first" and "last" mean measured steps. The thresholds are those of `AnalysisConfig`.

1. The run is *collapsed* if t stays above `collapsed_tsim` over its last `final_steps` steps (over all steps of a
   shorter run). The other points are defined for collapsed runs only.
2. The *final collapsed stretch* starts at the first step with t > `collapsed_tsim` after the last step with
   t < `repaired_tsim`. An earlier excursion to t = 1 is not part of it if it was repaired, that is, if t fell below
   `repaired_tsim` again. Small relapses between the two thresholds do not end the stretch.
3. The *rise* lasts from the end of the previous collapsed stretch (from the run's first step if there was none) to the
   start of the final one. Let t0 be the lowest t in it. Its *steepest part* is where t gains (1 - t0)/2 for good in the
   fewest steps.
4. The *earlier level* is the lowest t at the start of the steepest part and within four times as many steps before it:
   the level just before the rise, however t drifted there.
5. The *transition step* is the first step after the last one with t <= level + `rise_fraction` (1 - level).
6. The transition ends at the first step from which t > `collapsed_tsim` for good. Its length is the number of steps
   from the transition step to there.

If t is above `collapsed_tsim` from the first step on, the transition is at the first step and has length 0.
"""

from dataclasses import dataclass

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import ArrayLike, NDArray

from collapse.config.analysis import AnalysisConfig

REACH = 4
"""How far before the steepest part, in its own lengths, to look for the earlier level: there a logistic rise has not
begun."""


@dataclass(frozen=True)
class Transition:
    """When a run collapsed; the steps are NaN if it did not."""

    collapsed: bool
    step: float
    """First step of the sharp rise, the transition step."""
    settled: float
    """First step from which last-layer token similarity stays above `collapsed_tsim`."""

    @property
    def length(self) -> float:
        """Steps that the transition took."""
        return self.settled - self.step


NO_TRANSITION = Transition(collapsed=False, step=np.nan, settled=np.nan)


def find_transition(steps: ArrayLike, tsim: ArrayLike, config: AnalysisConfig) -> Transition:
    """The transition in a curve of last-layer token similarity, as this module defines it.

    Args:
        steps: Optimizer steps, (S,), increasing.
        tsim: Last-layer token similarity at these steps, (S,); NaN where not measured.
        config: Thresholds.
    """
    curve = pd.Series(np.asarray(tsim, float), index=np.asarray(steps)).dropna()
    curve = curve.rolling(config.smoothing_steps, center=True, min_periods=1).median()
    t, at = curve.to_numpy(), curve.index.to_numpy()
    if not len(t) or not (t[last_steps(at, config.final_steps)] > config.collapsed_tsim).all():
        return NO_TRANSITION
    repaired = _last(t < config.repaired_tsim)
    start = repaired + 1 + int(np.argmax(t[repaired + 1 :] > config.collapsed_tsim))
    previous = _last(t[: max(repaired, 0)] > config.collapsed_tsim) + 1
    onset = previous + _onset(at[previous : start + 1], t[previous : start + 1], config.rise_fraction)
    settled = _last(t <= config.collapsed_tsim) + 1
    return Transition(collapsed=True, step=float(curve.index[onset]), settled=float(curve.index[settled]))


def loss_before(run: xr.Dataset, step: float, config: AnalysisConfig) -> float:
    """The lowest loss that a run had reached before a step, in nats.

    This is the lowest mean over `final_steps` consecutive steps, of which only the recorded ones count. If fewer than
    `final_steps` steps come before, it is the mean of all of them; NaN if there are none. A NaN step stands for the end
    of the run.
    """
    loss = run["loss"].to_series()
    loss = (loss if np.isnan(step) else loss[loss.index < step]).dropna()
    if loss.empty:
        return np.nan
    steps, total = loss.index.to_numpy(), np.concatenate([[0.0], loss.cumsum()])
    ends = np.arange(1, len(loss) + 1)
    starts = np.searchsorted(steps, steps - config.final_steps, side="right")
    whole = steps - steps[0] >= config.final_steps - 1
    if not whole.any():
        return float(loss.mean())
    return float(((total[ends] - total[starts]) / (ends - starts))[whole].min())


def last_steps(steps: NDArray[np.int_], count: int) -> NDArray[np.bool_]:
    """Which ascending steps (S,) lie within the last `count` step numbers up to the last of them: (S,)."""
    among: NDArray[np.bool_] = steps + count > steps[-1:]
    return among


def _last(condition: NDArray[np.bool_]) -> int:
    """Index of the last true value; -1 if there is none."""
    found = np.flatnonzero(condition)
    return int(found[-1]) if len(found) else -1


def _onset(steps: NDArray[np.int_], t: NDArray[np.float64], rise_fraction: float) -> int:
    """Index of the transition step in a rise `t` (S,) that ends at its last value, at `steps` (S,)."""
    lowest = t.min()
    half = (1 - lowest) / 2
    reached = np.minimum.accumulate(t[::-1])[::-1]  # t never falls below this again
    ends = np.searchsorted(reached, reached + half)
    never = steps[-1] - steps[0] + 1
    lengths = np.where(ends < len(t), steps[np.minimum(ends, len(t) - 1)] - steps, never)
    steepest = int(lengths.argmin())
    before = np.searchsorted(steps, steps[steepest] - REACH * int(lengths[steepest]))
    level = t[before : steepest + 1].min()
    return min(_last(t <= level + rise_fraction * (1 - level)) + 1, len(t) - 1)
