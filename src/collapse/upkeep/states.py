"""Progress of each run of a config, according to its files."""

import json
import re
from dataclasses import dataclass
from typing import Literal

from collapse.pipeline.plan import Plan

State = Literal["done", "resumable", "to do"]


@dataclass(frozen=True)
class Standing:
    """Progress of a run."""

    state: State
    step: int = 0
    """Step from which a resumable run resumes."""
    other_code: bool = False
    """Whether a finished run was trained with another version of the code."""

    def __str__(self) -> str:
        return f"{self.state} at step {self.step}" if self.state == "resumable" else self.state


def standing(plan: Plan, run_id: str) -> Standing:
    """Progress of a run: done if it has a manifest, resumable if it has a checkpoint of the same code.

    Args:
        plan: The config.
        run_id: The run.
    """
    manifest = plan.paths.run(run_id) / "manifest.json"
    if manifest.is_file():
        return Standing("done", other_code=_code(manifest.read_bytes()) != plan.code("training"))
    checkpoints = plan.train_scratch(run_id) / "checkpoints"
    seals = (re.fullmatch(r"step-(\d+)\.json", path.name) for path in checkpoints.glob("step-*.json"))
    steps = [int(seal[1]) for seal in seals if seal]
    return Standing("resumable", max(steps)) if steps else Standing("to do")


def _code(manifest: bytes) -> str | None:
    """Fingerprint of the training code in the manifest of a run; None if it is unreadable."""
    try:
        code: str = json.loads(manifest)["code"]
        return code
    except (ValueError, KeyError, TypeError):
        return None
