import multiprocessing
import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from collapse.errors import CollapseError
from collapse.launch.locks import only_one

SPAWN = multiprocessing.get_context("spawn")


def hold(lock_file: Path, ready: Any) -> None:
    with only_one(lock_file):
        ready.set()
        time.sleep(600)


@pytest.fixture
def holder(tmp_path: Path) -> Any:
    ready = SPAWN.Event()
    process = SPAWN.Process(target=hold, args=(tmp_path / "run.lock", ready))
    process.start()
    assert ready.wait(60)
    yield process
    process.kill()
    process.join()


def test_a_second_holder_is_refused_and_told_which_file(tmp_path: Path, holder: Any) -> None:
    refused = rf"{tmp_path}/run.lock: another process is training this run: .*if its machine died, remove this file"
    with pytest.raises(CollapseError, match=refused), only_one(tmp_path / "run.lock", 0.1):
        pass


def test_a_killed_holder_is_waited_for(tmp_path: Path, holder: Any) -> None:
    os.kill(holder.pid, signal.SIGKILL)
    with only_one(tmp_path / "run.lock", 60):
        pass


def test_removing_the_file_of_a_dead_machine_helps(tmp_path: Path, holder: Any) -> None:
    """A file system may keep the lock of a machine that died; here a living holder takes its place."""
    (tmp_path / "run.lock").unlink()
    with only_one(tmp_path / "run.lock"):
        pass


def test_it_is_released_after_an_error(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError, match="boom"), only_one(tmp_path / "run.lock"):
        raise RuntimeError("boom")
    with only_one(tmp_path / "run.lock"):
        pass
