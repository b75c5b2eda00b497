"""Checkpoints of a training under way: whole or ignored, never of another run."""

import json
import shutil
from dataclasses import asdict, dataclass
from pathlib import Path
from pickle import UnpicklingError
from typing import Any

import torch
import torch.distributed as dist

from collapse.errors import CollapseError
from collapse.files import tree_digest, write_atomic
from collapse.training import state

STATE = "state.pt"
KEPT = 2
"""Checkpoints kept: the newest, and the one to fall back on should it be damaged."""


@dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to."""

    run_id: str
    code: str
    tokens: str
    """Digest of the training tokens."""


@dataclass(frozen=True)
class Seal:
    """Written beside a checkpoint's folder last: what it holds, and the digests to tell that it is whole."""

    identity: Identity
    step: int
    files: str
    """Digest of the checkpoint's folder."""
    history: str
    """Digest of the metric history before `step`."""
    precision: str
    """Arithmetic of the steps before it."""

    @staticmethod
    def read(path: Path) -> "Seal | None":
        """The seal in a file; None where it is damaged."""
        try:
            content = json.loads(path.read_text())
            return Seal(Identity(**content.pop("identity")), **content)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def _tag(step: int) -> str:
    return f"step-{step:08d}"


def save(engine: Any, folder: Path, step: int, identity: Identity, history_digest: str | None, precision: str) -> None:
    """Save the engine's whole state after `step` updates; called by every rank, sealed by rank 0.

    Args:
        engine: the DeepSpeed engine, at an accumulation boundary.
        folder: where the run's checkpoints live, on a file system that all ranks share.
        step: number of updates made.
        identity: what the checkpoint belongs to.
        history_digest: digest of the metric history before `step`; needed on rank 0 only.
        precision: arithmetic that the run is trained in.

    Raises:
        CollapseError: where it cannot be written.
    """
    tag = _tag(step)
    if dist.get_rank() == 0:
        (folder / f"{tag}.json").unlink(missing_ok=True)
        shutil.rmtree(folder / tag, ignore_errors=True)
        (folder / tag).mkdir(parents=True, exist_ok=True)
    whole = state.capture(engine)
    if dist.get_rank() == 0:
        try:
            torch.save(whole, folder / tag / STATE)
        except RuntimeError as error:  # torch.save has no OSError for a disk that is full
            raise CollapseError(
                f"{folder / tag}: the checkpoint could not be written ({str(error).splitlines()[0]}): the disk may be "
                "full; free some space and start again; the checkpoint before it is kept"
            ) from None
        seal = Seal(identity, step, tree_digest(folder / tag), history_digest or "", precision)
        write_atomic(folder / f"{tag}.json", json.dumps(asdict(seal), indent=2) + "\n")
        for old in sorted(folder.glob("step-*.json"), reverse=True)[KEPT:]:
            old.unlink()
            shutil.rmtree(folder / old.stem, ignore_errors=True)
    dist.barrier()  # so that no process leaves, and takes the others with it, before the seal is written


def newest(folder: Path) -> Path | None:
    """The folder of the newest sealed checkpoint; None where there is none."""
    return max((path.with_suffix("") for path in folder.glob("step-*.json")), default=None)


@dataclass(frozen=True)
class Candidate:
    """A whole checkpoint of this run."""

    step: int
    tag: str
    history: str
    precision: str


def seals(folder: Path, identity: Identity) -> list[tuple[Path, Seal | None]]:
    """The checkpoints of a folder, newest first, with their seals, None where one is damaged.

    Raises:
        CollapseError: where a checkpoint belongs to another spec, other code or other text.
    """
    found = [(path, Seal.read(path)) for path in sorted(folder.glob("step-*.json"), reverse=True)]
    for path, seal in found:
        if seal is not None:
            _check_identity(path, seal.identity, identity)
    return found


def candidates(folder: Path, identity: Identity) -> tuple[list[Candidate], list[str]]:
    """Whole checkpoints, newest first, and a sentence about each that is damaged.

    Raises:
        CollapseError: where a checkpoint belongs to another spec, other code or other text.
    """
    whole: list[Candidate] = []
    complaints: list[str] = []
    for path, seal in seals(folder, identity):
        if seal is None:
            complaints.append(f"{path}: the checkpoint's seal is damaged; falling back to the one before")
            continue
        if not (folder / path.stem).is_dir() or tree_digest(folder / path.stem) != seal.files:
            complaints.append(f"{folder / path.stem}: the checkpoint is damaged; falling back to the one before")
            continue
        whole.append(Candidate(seal.step, path.stem, seal.history, seal.precision))
    return whole, complaints


def _check_identity(path: Path, found: Identity, wanted: Identity) -> None:
    advice = "move its scratch folder away to start this run anew"
    if found.run_id != wanted.run_id:
        raise CollapseError(f"{path}: the checkpoint belongs to run {found.run_id}, not to {wanted.run_id}: {advice}")
    if found.code != wanted.code:
        raise CollapseError(
            f"{path}: the checkpoint was made by other code (fingerprint {found.code}, now {wanted.code}): {advice}"
        )
    if found.tokens != wanted.tokens:
        raise CollapseError(
            f"{path}: the checkpoint was trained on other text (tokens {found.tokens[:16]}, now {wanted.tokens[:16]}): "
            f"{advice}"
        )


def load(engine: Any, folder: Path, candidate: Candidate) -> None:
    """Put a checkpoint's state into the engine; called by every rank. How many ranks made it does not matter.

    Raises:
        CollapseError: where it is of another model, or cannot be read.
    """
    path = folder / candidate.tag / STATE
    try:
        whole = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, OSError, UnpicklingError):
        raise CollapseError(f"{path}: this checkpoint cannot be read: move its folder away to start anew") from None
    state.restore(engine, whole, path)
