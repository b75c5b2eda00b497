import multiprocessing
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from collapse.errors import CollapseError
from collapse.launch.leases import lease, lease_folder, visible_gpus

IDS = ["0", "1", "2", "3"]
SPAWN = multiprocessing.get_context("spawn")


def use_gpus(folder: Path, count: int, rounds: int) -> None:
    """Hold GPUs several times, and fail if another process holds one of them too."""
    for _ in range(rounds):
        with lease(count, IDS, folder, poll_seconds=0.002) as ids:
            assert len(set(ids)) == count
            marks = [folder / f"in-use-{gpu}" for gpu in ids]
            for mark in marks:
                mark.touch(exist_ok=False)  # FileExistsError: held twice
            time.sleep(0.005)
            for mark in marks:
                mark.unlink()


def hold_for_ever(folder: Path, ready: Any) -> None:
    with lease(len(IDS), IDS, folder):
        ready.set()
        time.sleep(600)


@pytest.fixture
def holder(tmp_path: Path) -> Iterator[Any]:
    """A process that holds every GPU."""
    ready = SPAWN.Event()
    process = SPAWN.Process(target=hold_for_ever, args=(tmp_path, ready))
    process.start()
    assert ready.wait(30)
    yield process
    process.kill()
    process.join()


def test_no_gpu_is_ever_held_twice(tmp_path: Path) -> None:
    processes = [SPAWN.Process(target=use_gpus, args=(tmp_path, 1 + index % 3, 10)) for index in range(6)]
    for process in processes:
        process.start()
    for process in processes:
        process.join(60)
    assert [process.exitcode for process in processes] == [0] * 6


def test_64_jobs_share_4_gpus(tmp_path: Path) -> None:
    """All at once, one GPU each, as Snakemake starts them."""
    server = multiprocessing.get_context("forkserver")
    server.set_forkserver_preload(["collapse.launch.leases"])
    jobs = [server.Process(target=use_gpus, args=(tmp_path, 1, 1)) for _ in range(64)]
    for job in jobs:
        job.start()
    for job in jobs:
        job.join(120)
    assert [job.exitcode for job in jobs] == [0] * 64
    assert not list(tmp_path.glob("in-use-*"))


def test_each_slurm_job_has_leases_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two jobs on one machine may both call their only GPU "0"."""
    monkeypatch.delenv("SLURM_JOB_ID", raising=False)
    folders = {lease_folder()}
    for job in ("7", "8"):
        monkeypatch.setenv("SLURM_JOB_ID", job)
        folders.add(lease_folder())
    assert len(folders) == 3


def test_leases_do_not_follow_tmpdir(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    before = lease_folder()
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    assert lease_folder() == before
    monkeypatch.setattr("collapse.launch.leases.SHARED", tmp_path / "nowhere")
    assert lease_folder().parent == tmp_path


def test_a_killed_holder_releases_what_it_held(tmp_path: Path, holder: Any) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    with lease(len(IDS), IDS, tmp_path, poll_seconds=0.01) as ids:
        assert ids == IDS


def test_waiting_is_announced_and_ends(
    tmp_path: Path, holder: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    monkeypatch.setattr(time, "sleep", lambda _: holder.kill())
    with lease(1, IDS, tmp_path) as ids:
        assert len(ids) == 1
    assert capsys.readouterr().err == "waiting for 1 of 4 GPUs: other trainings hold them\n"


def test_leases_are_returned_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="boom"), lease(4, IDS, tmp_path):
        raise RuntimeError("boom")
    with lease(4, IDS, tmp_path) as ids:
        assert ids == IDS


def test_more_than_there_are_is_refused_at_once(tmp_path: Path) -> None:
    with pytest.raises(CollapseError, match="asks for 1 GPU per training, and this machine offers none"), lease(1, []):
        pass
    with pytest.raises(CollapseError, match="asks for 5 GPUs per training, and this machine offers 4"), lease(5, IDS):
        pass


@pytest.mark.parametrize(
    ("variable", "ids"),
    [("0,2", ["0", "2"]), ("GPU-8a1f, 3", ["GPU-8a1f", "3"]), ("", []), ("-1", []), ("1,1", ["1"])],
)
def test_ids_are_inherited(monkeypatch: pytest.MonkeyPatch, variable: str, ids: list[str]) -> None:
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", variable)
    assert visible_gpus() == ids
