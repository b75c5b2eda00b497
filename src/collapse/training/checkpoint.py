"""Checkpoints of a training under way: each is whole or ignored, and never taken from another run."""

import json
import shutil
from collections.abc import Callable
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
"""Checkpoints kept: the newest, and one to fall back on if it is damaged."""


@dataclass(frozen=True)
class Identity:
    """What a checkpoint belongs to."""

    run_id: str
    code: str
    """Fingerprint of the training code."""
    tokens: str
    """Digest of the training tokens."""


@dataclass(frozen=True)
class Seal:
    """The file beside a checkpoint's folder, written last: what the checkpoint holds, and digests to verify it."""

    identity: Identity
    step: int
    """Updates made."""
    files: str
    """Digest of the checkpoint's folder."""
    history: str
    """Digest of the metric history before `step`."""
    precision: str
    """Arithmetic of the steps before it."""

    @staticmethod
    def read(path: Path) -> "Seal | None":
        """The seal in a file; None if it is damaged."""
        try:
            content = json.loads(path.read_text())
            return Seal(Identity(**content.pop("identity")), **content)
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return None


def _tag(step: int) -> str:
    return f"step-{step:08d}"


def save(engine: Any, folder: Path, step: int, identity: Identity, history_digest: str | None, precision: str) -> None:
    """Save the engine's whole state after `step` updates. Every process must call it; the main process writes.

    Args:
        engine: the DeepSpeed engine, at an accumulation boundary.
        folder: where the run's checkpoints live, on a file system that all processes share.
        step: updates made.
        identity: what the checkpoint belongs to.
        history_digest: digest of the metric history before `step`; needed in the main process only.
        precision: arithmetic of the training.

    Raises:
        CollapseError: if it cannot be written.
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
        except RuntimeError as error:  # torch.save raises no OSError when the disk is full
            raise CollapseError(
                f"{folder / tag}: the checkpoint could not be written ({str(error).splitlines()[0]}): the disk may be "
                "full; free some space and start again; the checkpoint before it is kept"
            ) from None
        seal = Seal(identity, step, tree_digest(folder / tag), history_digest or "", precision)
        write_atomic(folder / f"{tag}.json", json.dumps(asdict(seal), indent=2) + "\n")
        for old in sorted(folder.glob("step-*.json"), reverse=True)[KEPT:]:
            old.unlink()
            shutil.rmtree(folder / old.stem, ignore_errors=True)
    dist.barrier()  # a process that left now would end the others before the seal is written


def newest(folder: Path) -> Path | None:
    """The folder of the newest sealed checkpoint; None if there is none."""
    return max((path.with_suffix("") for path in folder.glob("step-*.json")), default=None)


@dataclass(frozen=True)
class Candidate:
    """A whole checkpoint of this run."""

    step: int
    tag: str
    history: str
    precision: str


def seals(folder: Path, identity: Identity) -> list[tuple[Path, Seal | None]]:
    """The seals of a folder's checkpoints, newest first: their files and contents, None for a damaged one.

    Raises:
        CollapseError: if a checkpoint belongs to another spec, other code or other tokens.
    """
    found = [(path, Seal.read(path)) for path in sorted(folder.glob("step-*.json"), reverse=True)]
    for path, seal in found:
        if seal is not None:
            _check_identity(path, seal.identity, identity)
    return found


def candidates(folder: Path, identity: Identity, say: Callable[[str], None] = lambda sentence: None) -> list[Candidate]:
    """Whole checkpoints, newest first.

    Args:
        folder: where the run's checkpoints live.
        identity: what they must belong to.
        say: is given a sentence about each damaged checkpoint.

    Raises:
        CollapseError: if a checkpoint belongs to another spec, other code or other tokens.
    """
    whole: list[Candidate] = []
    for path, seal in seals(folder, identity):
        content = path.with_suffix("")
        if seal is None:
            say(f"{path}: the checkpoint's seal is damaged; falling back to the checkpoint before it")
        elif not content.is_dir() or tree_digest(content) != seal.files:
            say(f"{content}: the checkpoint is damaged; falling back to the checkpoint before it")
        else:
            whole.append(Candidate(seal.step, path.stem, seal.history, seal.precision))
    return whole


def _check_identity(path: Path, found: Identity, wanted: Identity) -> None:
    advice = "move its scratch folder away to train this run from step 0"
    if found.run_id != wanted.run_id:
        raise CollapseError(f"{path}: the checkpoint belongs to run {found.run_id}, not to {wanted.run_id}: {advice}")
    if found.code != wanted.code:
        raise CollapseError(
            f"{path}: the checkpoint was made by other code (fingerprint {found.code}, now {wanted.code}): {advice}"
        )
    if found.tokens != wanted.tokens:
        raise CollapseError(
            f"{path}: the checkpoint was trained on other tokens (digest {found.tokens[:16]}, now "
            f"{wanted.tokens[:16]}): {advice}"
        )


def load(engine: Any, folder: Path, candidate: Candidate) -> None:
    """Put a checkpoint's state into the engine, whatever number of processes saved it. Every process must call it.

    Raises:
        CollapseError: if it belongs to another model or cannot be read.
    """
    path = folder / candidate.tag / STATE
    try:
        whole = torch.load(path, map_location="cpu", weights_only=True, mmap=True)
    except (RuntimeError, OSError, UnpicklingError):
        raise CollapseError(
            f"{path}: the checkpoint cannot be read: move the folder {path.parent.name} away to fall back to the "
            "checkpoint before it"
        ) from None
    state.restore(engine, whole, path)
