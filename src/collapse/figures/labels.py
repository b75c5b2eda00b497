"""Runs in words: their settings and their outcome. Rows are those of `collapse.analysis.summary`."""

from collections.abc import Mapping
from typing import Any

import numpy as np

Row = Mapping[str, Any]

PLACEMENTS = {"post": "Post-Norm", "pre": "Pre-Norm"}
SCOPES = {"stream": "", "batch": "one batch", "sequence": "one sequence"}


def learning_rate(value: float) -> str:
    """A learning rate as in print, without markup: `0.012`, `8e-4`."""
    if value >= 1e-3:
        return f"{value:g}"
    mantissa, _, exponent = f"{value:e}".partition("e")
    return f"{float(mantissa):g}e{int(exponent)}"


def run_label(row: Row) -> str:
    """The settings of a run: `Post-Norm, lr 0.01, warmup 400, seed 0`."""
    parts = [PLACEMENTS[row["placement"]], f"lr {learning_rate(row['lr'])}"]
    parts.append(f"warmup {row['warmup_steps']}" if row["warmup_steps"] else "no warmup")
    if SCOPES[row["scope"]]:
        parts.append(SCOPES[row["scope"]])
    parts.append(f"seed {row['seed']}")
    return ", ".join(parts)


def outcome(row: Row) -> str:
    """The outcome of a run: `collapses between steps 268 and 290`."""
    ended = "" if row["ended"] == "completed" else f"; {row['ended']}"
    if not row["collapsed"]:
        return f"does not collapse{ended}"
    if np.isnan(row["transition_length"]) or row["transition_length"] == 0:
        return f"is collapsed from step {row['transition_step']:.0f} on{ended}"
    settled = row["transition_step"] + row["transition_length"]
    return f"collapses between steps {row['transition_step']:.0f} and {settled:.0f}{ended}"
