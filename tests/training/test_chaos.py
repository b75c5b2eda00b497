"""A run of the laptop's depth and width, killed at twenty random moments, ends as if nothing had happened."""

import json
import random
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from collapse.store.manifest import damages
from collapse.store.read import load_run, run_manifest

KILLS = 20
Attempt = Callable[..., dict[str, Any]]


@pytest.fixture
def attempt(lab, tmp_path: Path) -> Iterator[Attempt]:
    command = [sys.executable, str(Path(__file__).parents[1] / "nursery.py")]
    pipes: dict[str, Any] = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "text": True, "env": lab.environment}
    with subprocess.Popen(command, **pipes) as nursery:

        def attempted(command: list[str], **moment: Any) -> dict[str, Any]:
            task = {"job": command[-1], "log": str(tmp_path / "log")} | moment
            nursery.stdin.write(json.dumps(task) + "\n")
            nursery.stdin.flush()
            return json.loads(nursery.stdout.readline())

        yield attempted
        nursery.stdin.close()


def moment(kind: str, folder: Path, undisturbed: dict[str, Any], rng: random.Random) -> dict[str, Any]:
    """A random moment of a kind: between two file operations, while a checkpoint is written, or at any time."""
    if kind == "any time":
        return {"seconds": rng.uniform(0.1, 0.8) * undisturbed["seconds"]}
    if kind == "half-written":
        return {"sight": "step-*/state.pt", "under": str(folder / "scratch/run/checkpoints")}
    return {"place": kind, "strike": rng.randint(1, undisturbed["operations"][kind])}


@pytest.mark.chaos
def test_twenty_kills_change_nothing(lab, tmp_path: Path, attempt: Attempt) -> None:
    spec = lab.spec(
        layers=24, width=64, ffn_width=192, sequence_length=128, batch_size=2, steps=15, every=3, dense=[(5, 9)]
    )
    execution = lab.execution(micro_batch_size=1, flush_every=2, checkpoint_every=3)
    whole, folder = tmp_path / "whole", tmp_path / "killed"
    undisturbed = attempt(lab.command(spec, execution, whole))
    assert undisturbed["status"] == 0, (tmp_path / "log").read_text()
    assert all(count > 20 for count in undisturbed["operations"].values())
    expected = run_manifest(whole / "run")["digest"]

    command, rng = lab.command(spec, execution, folder), random.Random(0)
    kinds = [kind for _ in range(KILLS // 5) for kind in (*undisturbed["operations"], "any time", "half-written")]
    while kinds:
        status = attempt(command, **moment(kinds[0], folder, undisturbed, rng))["status"]
        assert status in (0, -signal.SIGKILL), (tmp_path / "log").read_text()
        if status:
            kinds.pop(0)
        if (folder / "run" / "manifest.json").exists():  # whatever has a manifest is whole
            assert not damages(folder / "run" / "metrics.zarr", run_manifest(folder / "run"))
            assert run_manifest(folder / "run")["digest"] == expected
            shutil.rmtree(folder)

    assert attempt(command)["status"] == 0, (tmp_path / "log").read_text()
    assert run_manifest(folder / "run")["digest"] == expected
    assert [path.name for path in (folder / "scratch").glob("*/*")] == ["finished"]
    assert list(load_run(folder / "run")["step"].values) == spec.recorded_steps
    assert "falling back" not in (tmp_path / "log").read_text()  # a kill leaves no damage, only what is unfinished
