"""Kill, stop, starve and damage a training: nothing finished is lost, nothing half-written is trusted."""

import json
import resource
import shutil
import signal
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr

from collapse.errors import CollapseError
from collapse.files import tree_digest
from collapse.store.read import load_run, open_run
from collapse.training.checkpoint import Identity, candidates, save
from collapse.training.device import Device
from collapse.training.loop import Trainer
from collapse.training.measurements import Pending

Files = dict[str, str]


@pytest.fixture(scope="module")
def undisturbed(lab, tmp_path_factory: pytest.TempPathFactory) -> str:
    """Digest of the store that an uninterrupted run leaves."""
    folder = tmp_path_factory.mktemp("undisturbed")
    done = lab.run(lab.spec(), lab.execution(), folder)
    assert done.returncode == 0, done.stderr
    assert "resuming" not in done.stderr
    manifest = json.loads((folder / "run" / "manifest.json").read_text())
    assert manifest["digest"] == tree_digest(folder / "run" / "metrics.zarr")
    return manifest["digest"]


def signal_at(
    lab, folder: Path, step: int, number: signal.Signals, **execution: Any
) -> subprocess.CompletedProcess[str]:
    """Start a run, and send it a signal as soon as it prints that it has made a step."""
    command = lab.command(lab.spec(), lab.execution(flush_every=1, **execution), folder)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=lab.environment) as process:
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
    assert "resuming from the checkpoint of step 10" in done.stderr
    assert digest(wreck) == tree_digest(wreck / "run" / "metrics.zarr") == undisturbed
    assert [path.name for path in (wreck / "scratch" / "run").iterdir()] == ["finished"]


def test_a_finished_run_is_not_trained_again(lab, wreck: Path, undisturbed: str) -> None:
    assert resume(lab, wreck).returncode == 0
    shutil.rmtree(wreck / "scratch" / "run" / "finished")
    again = resume(lab, wreck)
    assert again.returncode == 0 and "already trained to its end; delete" in again.stderr
    assert digest(wreck) == tree_digest(wreck / "run" / "metrics.zarr") == undisturbed


def test_a_finished_run_whose_outputs_were_deleted_is_published_again(lab, wreck: Path, undisturbed: str) -> None:
    """Snakemake deletes them at its next start if it was killed before its job ended."""
    assert resume(lab, wreck).returncode == 0
    shutil.rmtree(wreck / "run")
    again = resume(lab, wreck)
    assert again.returncode == 0 and "an earlier start trained this run to its end" in again.stderr
    assert "step 12/" not in again.stderr
    assert digest(wreck) == tree_digest(wreck / "run" / "metrics.zarr") == undisturbed
    other = lab.run(lab.spec(), lab.execution(), wreck, code="newer")
    assert other.returncode == 0 and "step 12/12" in other.stderr


def test_a_damaged_copy_of_a_finished_run_is_not_published(lab, wreck: Path, undisturbed: str) -> None:
    assert resume(lab, wreck).returncode == 0
    shutil.rmtree(wreck / "run")
    chunk = next(path for path in (wreck / "scratch/run/finished/metrics.zarr").rglob("c/*") if path.is_file())
    chunk.unlink()
    again = resume(lab, wreck)
    assert again.returncode == 0 and "step 12/12" in again.stderr
    assert digest(wreck) == undisturbed


def test_sigterm_checkpoints_and_leaves(lab, tmp_path: Path, undisturbed: str) -> None:
    done = signal_at(lab, tmp_path, 7, signal.SIGTERM)
    assert done.returncode == 1 and "asked to stop; a checkpoint is saved" in done.stderr
    again = resume(lab, tmp_path)
    assert "resuming from the checkpoint of step" in again.stderr and again.returncode == 0, again.stderr
    assert digest(tmp_path) == undisturbed


def test_a_checkpoint_is_saved_where_nobody_listens_any_more(lab, tmp_path: Path) -> None:
    """A scheduler signals all of a job's processes: the `tee` behind a training dies at once, and its pipe breaks."""
    execution = lab.execution(flush_every=1, checkpoint_every=99)
    command = lab.command(lab.spec(steps=400, horizon=400), execution, tmp_path)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=lab.environment) as process:
        for line in process.stderr:
            if "step 5/" in line:
                break
        process.stderr.close()
        process.send_signal(signal.SIGTERM)
        assert process.wait(120) == 1
    (seal,) = tmp_path.glob("scratch/run/checkpoints/*.json")
    assert json.loads(seal.read_text())["step"] >= 5


def damage(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 0xFF
    path.write_bytes(content)


def test_a_damaged_checkpoint_falls_back_to_the_one_before(lab, wreck: Path, undisturbed: str) -> None:
    damage(wreck / "scratch/run/checkpoints/step-00000010/state.pt")
    done = resume(lab, wreck)
    assert done.returncode == 0, done.stderr
    assert "step-00000010: the checkpoint is damaged; falling back to the checkpoint before it" in done.stderr
    assert "resuming from the checkpoint of step 5" in done.stderr
    assert digest(wreck) == undisturbed


def test_with_every_checkpoint_damaged_it_starts_from_step_0(lab, wreck: Path, undisturbed: str) -> None:
    checkpoints = wreck / "scratch/run/checkpoints"
    (checkpoints / "step-00000010.json").write_text("{")
    shutil.rmtree(checkpoints / "step-00000005")
    (checkpoints / "step-00000099").mkdir()  # a save that was cut short has no seal
    done = resume(lab, wreck)
    assert done.returncode == 0, done.stderr
    assert "seal is damaged" in done.stderr and "resuming" not in done.stderr
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
    with pytest.raises(CollapseError, match=r"was trained on other tokens \(digest .*, now 0000"):
        candidates(wreck / "scratch" / "run" / "checkpoints", identity)
    assert tree_digest(wreck) == before


@pytest.mark.parametrize(("size", "where"), [(2000, "history.zarr"), (20_000, "step-00000011")])
def test_a_full_disk_loses_nothing(lab, wreck: Path, undisturbed: str, size: int, where: str) -> None:
    """A limit on the size of files makes a large write fail, as a full disk does: in a flush, or in a checkpoint."""

    def limit() -> None:
        signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    before = tree_digest(wreck / "scratch/run/checkpoints")
    execution = lab.execution(flush_every=1, checkpoint_every=11)
    failed = lab.run(lab.spec(), execution, wreck, preexec_fn=limit)
    assert failed.returncode == 1 and "Traceback" not in failed.stderr, failed.stderr
    sentence = failed.stderr.strip().splitlines()[-1]
    assert sentence.startswith("error: ") and where in sentence, sentence
    assert not (wreck / "run" / "manifest.json").exists()
    shutil.rmtree(wreck / "scratch/run/checkpoints/step-00000011", ignore_errors=True)  # unfinished: it has no seal
    assert tree_digest(wreck / "scratch/run/checkpoints") == before
    done = resume(lab, wreck)
    assert done.returncode == 0 and digest(wreck) == undisturbed


def test_a_diverging_run_ends_early_and_says_why(lab, tmp_path: Path) -> None:
    """At this rate the first update overflows: rows are infinite, and RMSNorm makes them 0 or NaN."""
    done = lab.run(lab.spec(lr=1e30, warmup_steps=0), lab.execution(), tmp_path)
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run")
    assert run.attrs["ended"] in {f"{what} was not finite at step 1" for what in ("the loss", "the gradient norm")}
    assert run.sizes["step"] == 2
    assert f"ended early: {run.attrs['ended']}; no checkpoint was saved before it" in done.stderr


def test_the_last_good_checkpoint_of_a_diverging_run_is_kept(lab, tmp_path: Path) -> None:
    """A step that the config does not record may fail; the failed step is recorded."""
    spec, execution = lab.spec(lr=1e30, warmup_steps=0, every=5), lab.execution(checkpoint_every=1)
    done = lab.run(spec, execution, tmp_path)
    assert done.returncode == 0, done.stderr
    run = load_run(tmp_path / "run")
    kept = tmp_path / "scratch/run/checkpoints/step-00000001"
    assert f"ended early: {run.attrs['ended']}; the checkpoint before it is kept: {kept}" in done.stderr
    identity = Identity(spec.run_id, "code", lab.store.manifest.train.sha256)
    assert [candidate.step for candidate in candidates(kept.parent, identity)] == [1]
    assert list(run["step"].values) == [0, 1]
    assert np.isfinite(run["alpha"][0]).all() and np.isnan(run["alpha"][1]).all()
    assert list(run["tokens"].values) == [8 * 24, 2 * 8 * 24]


def test_only_some_steps_are_recorded_and_they_are_the_same(lab, wreck: Path, undisturbed: str, tmp_path: Path) -> None:
    assert resume(lab, wreck).returncode == 0
    spec = lab.spec(every=5, dense=[(2, 3), (8, 9)])
    assert lab.run(spec, lab.execution(), tmp_path).returncode == 0
    every, some = load_run(wreck / "run"), load_run(tmp_path / "run")
    assert list(some["step"].values) == [0, 2, 3, 5, 8, 9, 10, 11] == spec.recorded_steps
    chosen = every.sel(step=some["step"])
    for name in set(some.data_vars):
        np.testing.assert_array_equal(some[name], chosen[name], err_msg=str(name))
    assert np.isfinite(some["lm_head_norm"].sel(step=[0, 3, 9])).all()  # every third step, where it is recorded
    manifest = json.loads((tmp_path / "run" / "manifest.json").read_text())
    assert manifest["steps"] == 12


def close(folder: Path, wanted: xr.Dataset) -> None:
    """Assert that a run's numbers are those of another, within the rounding of another number of processes."""
    run = load_run(folder / "run")
    for name in ("loss", "grad_norm", "tsim_x", "param_grad", "alpha", "validation_loss"):
        np.testing.assert_allclose(run[name], wanted[name], rtol=2e-3, atol=1e-7, err_msg=name)
    np.testing.assert_allclose(run["loss"], wanted["loss"], rtol=1e-5)


def test_the_number_of_processes_may_change_and_time_may_run_out(lab, wreck: Path, tmp_path: Path) -> None:
    """Resume a run of one process with two, and one of two processes, stopped by its time limit, with one."""
    more = lab.execution(processes=2, micro_batch_size=4)
    whole = Path(shutil.copytree(wreck, tmp_path / "whole"))
    assert resume(lab, whole).returncode == 0
    done = lab.run(lab.spec(), more, wreck)
    assert done.returncode == 0 and "resuming from the checkpoint of step 10" in done.stderr, done.stderr
    wanted = load_run(whole / "run")
    close(wreck, wanted)
    left = lab.run(lab.spec(), more.model_copy(update={"time_limit": 1}), tmp_path)
    assert left.returncode == 1 and not (tmp_path / "run" / "manifest.json").exists()
    sentence = "the time limit of 1 s is near; a checkpoint is saved, and the same command resumes from it"
    assert sentence in left.stderr and "Traceback" not in left.stderr
    again = resume(lab, tmp_path)
    assert again.returncode == 0 and "resuming from the checkpoint of step 1\n" in again.stderr, again.stderr
    close(tmp_path, wanted)


@pytest.mark.parametrize(
    ("loss", "norm", "what"), [(float("nan"), 1.0, "the loss"), (1.0, float("nan"), "the gradient")]
)
def test_nothing_behind_a_failed_step_is_kept(
    lab, tmp_path: Path, process_group, monkeypatch, loss, norm, what
) -> None:
    identity = Identity("run", "code", "tokens")
    trainer = Trainer(lab.spec(), lab.execution(), lab.store, Device("cpu", "fp32"), identity, tmp_path)
    pending = Pending(0)
    for step in range(4):
        trainer.step(step, pending)
    pending.losses[2], pending.host[2]["grad_norm"] = torch.tensor(loss), norm
    failure = trainer.flush(pending)
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
        save(None, tmp_path, 3, Identity("run", "code", "tokens"), "digest", "fp32")
    assert not list(tmp_path.glob("*.json"))


def test_another_precision_than_before_is_said(lab, wreck: Path) -> None:
    seal = wreck / "scratch/run/checkpoints/step-00000010.json"
    seal.write_text(seal.read_text().replace("fp32", "bf16"))
    done = resume(lab, wreck)
    assert done.returncode == 0, done.stderr
    assert "the steps so far used bf16, the steps from here on use fp32" in done.stderr
    assert resume(lab, wreck).stderr.count("the steps so far") == 0


def test_checkpoints_of_other_code_are_named_when_they_are_ignored(lab, wreck: Path, tmp_path: Path) -> None:
    """Scratch folders are named by run and code, so that other code finds an empty one."""
    run_id, folder = lab.spec().run_id, tmp_path / "scratch"
    shutil.copytree(wreck / "scratch/run", folder / f"{run_id}-code")
    (folder / f"{run_id}-empty" / "checkpoints").mkdir(parents=True)
    done = lab.run(lab.spec(), lab.execution(), tmp_path, code="newer")
    assert done.returncode == 0, done.stderr
    sentence = (
        f"{run_id}: ignoring the checkpoint of step 10 in {folder / f'{run_id}-code'}: other code made it (fingerprint "
        "code, now newer), so the training starts from step 0"
    )
    assert [line for line in done.stderr.splitlines() if "ignoring" in line] == [sentence]


def test_two_trainings_of_one_run_do_not_meet(lab, tmp_path: Path) -> None:
    from filelock import FileLock

    (tmp_path / "scratch").mkdir()
    with FileLock(tmp_path / "scratch" / "run.lock"):
        done = resume(lab, tmp_path)
    assert done.returncode == 1 and "another process is training this run" in done.stderr
