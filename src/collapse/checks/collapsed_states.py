"""The paper's statements about collapsed states and about expectations, on states constructed in float64."""

import numpy as np
import torch
import xarray as xr

from collapse.checks.expectations import attention_checks, conditional_checks, ffn_checks, rescaling_checks
from collapse.checks.gradients import contraction_checks, growth_checks, near_collapse_checks
from collapse.checks.network import Trial
from collapse.checks.statements import RELATIONS, Comparison, worst
from collapse.checks.stationarity import loss_checks, network_checks, sublayer_checks
from collapse.config.base import NonNegativeInt, Section
from collapse.progress import Progress
from collapse.store.job import Job

TRIALS = 8
"""Random constructions per statement."""
CHECKS = (
    contraction_checks,
    near_collapse_checks,
    growth_checks,
    network_checks,
    sublayer_checks,
    loss_checks,
    attention_checks,
    ffn_checks,
    conditional_checks,
    rescaling_checks,
)
"""Each turns a trial into comparisons by statement; together they compare every statement of `RELATIONS`."""
VARIABLES = {
    "measured": ("measured value, of the comparison that is furthest from the statement", "", "docs/claims.md"),
    "stated": ("what the statement says about it", "", "docs/claims.md"),
    "scale": ("size to compare the difference with: a natural magnitude, or a standard error", "", "docs/claims.md"),
    "statement": ("name of the statement", "", "docs/claims.md"),
    "trial": ("random construction, counted from 0", "", "docs/claims.md"),
    "relation": ("how measured should relate to stated", "", "docs/claims.md"),
}
"""Name to (long name, units, source)."""


class Spec(Section):
    """What determines the constructed states."""

    seed: NonNegativeInt


def check(trial: Trial) -> dict[str, Comparison]:
    """The statements on the constructions of one trial: for each the comparison that is furthest from it."""
    found: dict[str, Comparison] = {}
    for checks in CHECKS:
        found |= checks(trial)
    return {name: worst(relation, found[name]) for name, relation in RELATIONS.items()}


@torch.enable_grad()
def try_statements(seed: int, trials: int = TRIALS) -> xr.Dataset:
    """All statements on all trials: the variables of `VARIABLES`, dims (statement, trial).

    Args:
        seed: Seed of the random constructions.
        trials: How many random constructions, at least 2.
    """
    progress = Progress("collapsed_states", "trials")
    found = []
    for index in range(trials):
        found.append(check(Trial.draw(seed, index, trials)))
        progress.update(index + 1, (index + 1) / trials)
    dims = ("statement", "trial")
    values = {
        name: (dims, np.array([[getattr(trial[statement], name) for trial in found] for statement in RELATIONS]))
        for name in Comparison._fields
    }
    relation = ("statement", list(RELATIONS.values()))
    return xr.Dataset(values, {"statement": list(RELATIONS), "trial": np.arange(trials), "relation": relation})


def measure(job: Job[Spec]) -> xr.Dataset:
    """The dataset: all statements on `TRIALS` random constructions, see `try_statements`."""
    return try_statements(job.spec.seed)
