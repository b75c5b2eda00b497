"""Kill, stop, starve and damage a training: nothing finished is lost, nothing half-written is believed."""

import json
import os
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch

from collapse.errors import CollapseError
from collapse.files import tree_digest
from collapse.store.read import open_run
from collapse.training.checkpoint import Identity, candidates, save
from collapse.training.engine import Device
from collapse.training.loop import Trainer
from collapse.training.measurements import Pending
from collapse.training.progress import Progress

Files = dict[str, str]


@pytest.fixture(scope="module")
def undisturbed(lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Digest of the store that an uninterrupted run leaves."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = lab.run(lab.spec(), lab.execution(), folder)
    assert done.returncode == 0, done.stderr
    assert "going on" not in done.stderr
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert manifest["digest"] == tree_digest(folder / "run" / "metrics.zarr")
    return manifest["digest"]


def signal_at(
    lab, folder: Path, step: int, number: signal.Signals, **execution: Any
) -> subprocess.CompletedProcess[str]:
    """Start a run, and send it a signal as soon as it says that it is past a step."""
    command = lab.command(lab.spec(), lab.execution(flush_every=1, **execution), folder)
    environment = os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as process:
        said = []
        for line in process.stderr:
            said.append(line)
            if f"step {step}/" in line:
                process.send_signal(number)
        process.wait()
    return subprocess.CompletedProcess(command, process.returncode, "", "".join(said))


@pytest.fixture(scope="module")
def killed(lab, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run killed with SIGKILL after step 11, with checkpoints of steps 5 and 10 behind it."""
    folder = tmp_path_factory.mktemp("killed")
    done = signal_at(lab, folder, 11, signal.SIGKILL)
    assert done.returncode == -signal.SIGKILL
    assert not (folder / "run" / "manifest.json").exists()
    assert sorted(p.name for p in (folder / "scratch" / "run" / "checkpoints").glob("*.json")) == [
        "step-00000005.json",
        "step-00000010.json",
    ]
    return folder


@pytest.fixture
def wreck(killed: Path, tmp_path: Path) -> Path:
    """A copy of the killed run, to damage."""
    return Path(shutil.copytree(killed, tmp_path / "wreck"))


def resume(lab, folder: Path, **options: Any) -> subprocess.CompletedProcess[str]:
    return lab.run(lab.spec(), lab.execution(), folder, **options)


def digest(folder: Path) -> str:
    return json.loads((folder / "run" / "manifest.json").read_text())["digest"]


def test_kill_and_resume_is_bit_identical(lab, wreck: Path, undisturbed: str) -> None:
    done = resume(lab, wreck)
    assert done.returncode == 0, done.stderr
    assert "going on from the checkpoint of step 10" in done.stderr
    assert digest(wreck) == tree_digest(wreck / "run" / "metrics.zarr") == undisturbed
    assert not (wreck / "scratch" / "run").exists()


def test_sigterm_checkpoints_and_leaves(lab, tmp_path: Path, undisturbed: str) -> None:
    done = signal_at(lab, tmp_path, 7, signal.SIGTERM)
    assert done.returncode == 1 and "asked to stop; a checkpoint is saved" in done.stderr
    again = resume(lab, tmp_path)
    assert "going on from the checkpoint of step" in again.stderr and again.returncode == 0, again.stderr
    assert digest(tmp_path) == undisturbed


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(lab, wreck: Path, undisturbed: str) -> None:
    damage(wreck / "scratch/run/checkpoints/step-00000010/state.pt")
    done = resume(lab, wreck)
    assert done.returncode == 0, done.stderr
    assert "step-00000010: the checkpoint is damaged; falling back to the one before" in done.stderr
    assert "going on from the checkpoint of step 5" in done.stderr
    assert digest(wreck) == undisturbed


def test_with_every_checkpoint_damaged_it_starts_anew(lab, wreck: Path, undisturbed: str) -> None:
    checkpoints = wreck / "scratch/run/checkpoints"
    (checkpoints / "step-00000010.json").write_text("{")
    shutil.rmtree(checkpoints / "step-00000005")
    (checkpoints / "step-00000099").mkdir()  # a save that was cut short has no seal
    done = resume(lab, wreck)
    assert done.returncode == 0, done.stderr
    assert "seal is damaged" in done.stderr and "going on" not in done.stderr
    assert digest(wreck) == undisturbed


def test_a_damaged_history_is_not_built_upon(lab, wreck: Path, undisturbed: str) -> None:
    shutil.rmtree(wreck / "scratch/run/history.zarr/stepwise/c")
    done = resume(lab, wreck)
    assert done.returncode == 0, done.stderr
    assert "the metric history before it is damaged" in done.stderr
    assert digest(wreck) == undisturbed


def test_a_checkpoint_of_another_spec_code_or_text_is_refused(lab, wreck: Path) -> None:
    before = tree_digest(wreck)
    other = lab.run(lab.spec(lr=2e-3), lab.execution(), wreck)
    assert other.returncode == 1 and "the checkpoint belongs to run post-lr1e-03" in other.stderr
    other = lab.run(lab.spec(), lab.execution(), wreck, code="newer")
    assert other.returncode == 1 and "was made by other code (fingerprint code, now newer)" in other.stderr
    other = lab.run(lab.spec(layers=2), lab.execution(), wreck)
    assert other.returncode == 1 and f"belongs to run {lab.spec().run_id}, not to" in other.stderr
    identity = Identity(lab.spec().run_id, "code", "0" * 64)
    with pytest.raises(CollapseError, match=r"was trained on other text \(tokens .*, now 0000"):
        candidates(wreck / "scratch" / "run" / "checkpoints", identity)
    assert tree_digest(wreck) == before


def test_a_full_disk_loses_nothing(lab, wreck: Path, undisturbed: str) -> None:
    """A limit on the size of files makes the next large write fail, as a full disk does."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))

    failed = resume(lab, wreck, preexec_fn=limit)
    assert failed.returncode == 1 and "Traceback" not in failed.stderr, failed.stderr
    assert failed.stderr.strip().splitlines()[-1].startswith("error: ")
    assert not (wreck / "run" / "manifest.json").exists()
    done = resume(lab, wreck)
    assert done.returncode == 0 and digest(wreck) == undisturbed


def test_a_diverging_run_ends_early_and_says_why(lab, tmp_path: Path) -> None:
    """At this rate the first update overflows: rows are infinite, and RMSNorm makes them 0 or NaN."""
    done = lab.run(lab.spec(lr=1e30, warmup_steps=0), lab.execution(), tmp_path)
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    assert run.attrs["ended"] in {f"{what} was not finite at step 1" for what in ("the loss", "the gradient norm")}
    assert run.sizes["step"] == 2
    assert f"ended early: {run.attrs['ended']}" in done.stderr


@pytest.mark.parametrize(
    ("loss", "norm", "what"), [(float("nan"), 1.0, "the loss"), (1.0, float("nan"), "the gradient")]
)
def test_nothing_behind_a_failed_step_is_kept(
    lab, tmp_path: Path, process_group, monkeypatch, loss, norm, what
) -> None:
    identity = Identity("run", "code", "tokens")
    trainer = Trainer(lab.spec(), lab.execution(), lab.store, Device("cpu", "fp32"), identity, tmp_path)
    progress = Progress("run", 0, 12, 1, 1.0, 1e9, speaks=False)
    pending = Pending(0)
    for step in range(4):
        trainer.step(step, pending)
    pending.losses[2], pending.host[2]["grad_norm"] = torch.tensor(loss), norm
    failure = trainer.flush(pending, progress)
    assert failure is not None and failure[0] == 2 and failure[1].startswith(what)
    assert trainer.history is not None
    assert list(trainer.history.read(4).steps) == [0, 1, 2]


def test_a_checkpoint_that_cannot_be_written_is_a_sentence(
    tmp_path: Path, process_group, monkeypatch: pytest.MonkeyPatch
) -> None:
    """torch.save reports a full disk as a RuntimeError."""

    def full(*_: object) -> None:
        raise RuntimeError("basic_ios::clear: iostream error\nand more")

    monkeypatch.setattr("torch.save", full)
    monkeypatch.setattr("collapse.training.state.capture", lambda engine: {})
    with pytest.raises(CollapseError, match=r"step-00000003: .*iostream error\): the disk may be full"):
        save(None, tmp_path, 3, Identity("run", "code", "tokens"), "digest")
    assert not list(tmp_path.glob("*.json"))


def test_two_trainings_of_one_run_do_not_meet(lab, tmp_path: Path) -> None:
    from filelock import FileLock

    (tmp_path / "scratch").mkdir()
    with FileLock(tmp_path / "scratch" / "run.lock"):
        done = resume(lab, tmp_path)
    assert done.returncode == 1 and "another process is training this run" in done.stderr
