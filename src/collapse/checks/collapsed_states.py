"""The paper's statements about collapsed states and about expectations, on states constructed in float64.

python -m collapse.checks.collapsed_states --spec COLLAPSED_JSON --code FINGERPRINT
    --out results/<name>/probes/collapsed_states.zarr
"""

from argparse import ArgumentParser
from pathlib import Path

import numpy as np
import torch
import xarray as xr

from collapse.checks.expectations import attention_checks, conditional_checks, ffn_checks, rescaling_checks
from collapse.checks.gradients import contraction_checks, growth_checks, near_collapse_checks
from collapse.checks.network import Trial
from collapse.checks.statements import STATEMENTS, Comparison, worst
from collapse.checks.stationarity import loss_checks, network_checks, sublayer_checks
from collapse.config.option import parse_option
from collapse.config.probe import CollapsedSpec
from collapse.errors import run_stage
from collapse.progress import Progress
from collapse.provenance import provenance
from collapse.store.dataset import described, publish_dataset

TRIALS = 8
"""Constructed states a statement."""
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
"""Trial to comparisons by statement; together they are all of `STATEMENTS`."""
VARIABLES = {
    "measured": ("measured value, of the comparison that is furthest from the statement", "", "see source"),
    "stated": ("what the statement says of it", "", "see source"),
    "scale": ("size that the difference is seen against: a natural magnitude, or a standard error", "", "see source"),
    "statement": ("name of the statement", "", "see source"),
    "trial": ("random construction, counted from 0", "", "see source"),
    "relation": ("how measured relates to stated", "", "see source"),
    "source": ("where the paper states it", "", "see source"),
    "about": ("the statement in a line", "", "see source"),
    "tolerance": ("largest violation, in units of scale, that is rounding or sampling noise", "1", "see source"),
}  # fmt: skip
"""Name to (long name, units, source)."""


def check(trial: Trial) -> dict[str, Comparison]:
    """All statements on one trial's constructions: of each the comparison that is furthest from it."""
    found: dict[str, Comparison] = {}
    for checks in CHECKS:
        found |= checks(trial)
    return {name: worst(statement.relation, found[name]) for name, statement in STATEMENTS.items()}


@torch.enable_grad()
def measure(spec: CollapsedSpec, trials: int = TRIALS) -> xr.Dataset:
    """All statements on all trials: variables of `VARIABLES`, dims (statement, trial).

    Args:
        spec: The seed.
        trials: How many random constructions, at least 2.
    """
    progress = Progress("collapsed_states", "trials")
    found = []
    for index in range(trials):
        found.append(check(Trial.draw(spec.seed, index, trials)))
        progress.update(index + 1, (index + 1) / trials)
    dims = ("statement", "trial")
    values = {
        name: (dims, np.array([[getattr(trial[statement], name) for trial in found] for statement in STATEMENTS]))
        for name in Comparison._fields
    }
    about = {
        name: ("statement", [getattr(statement, name) for statement in STATEMENTS.values()])
        for name in ("relation", "source", "about", "tolerance")
    }
    return xr.Dataset(values, {"statement": list(STATEMENTS), "trial": np.arange(trials)} | about)


def _main() -> None:
    parser = ArgumentParser(prog="python -m collapse.checks.collapsed_states", description=__doc__)
    parser.add_argument("--spec", required=True, help="the seed, JSON")
    parser.add_argument("--code", required=True, help="fingerprint of the probe's code")
    parser.add_argument(
        "--out", required=True, type=Path, help="Zarr folder to write; its manifest is written beside it"
    )
    options = parser.parse_args()
    spec = parse_option(CollapsedSpec, "--spec", options.spec)
    origin = provenance(options.code, device="cpu", threads=torch.get_num_threads())
    publish_dataset(described(measure(spec), VARIABLES), options.out, spec.canonical(), origin)


if __name__ == "__main__":
    run_stage(_main)
