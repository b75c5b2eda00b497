"""torchrun's answer to signals."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

WORKER = """
import pathlib, signal, time
asked = []
for number in (signal.SIGTERM, signal.SIGUSR1):
    signal.signal(number, lambda *_: asked.append(1))
here = pathlib.Path(__file__).parent
(here / "ready").touch()
while not asked:
    time.sleep(0.01)
time.sleep(1)
(here / "saved").touch()
"""


@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGUSR1])
def test_a_second_signal_does_not_break_off_how_the_first_is_answered(tmp_path: Path, second: signal.Signals) -> None:
    script = tmp_path / "worker.py"
    script.write_text(WORKER)
    options = ["--standalone", "--nproc-per-node=1", "--signals-to-handle=SIGTERM,SIGUSR1", str(script)]
    node = subprocess.Popen(
        [sys.executable, "-m", "collapse.launch.node", *options], stderr=subprocess.PIPE, text=True,
        env=os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    deadline = time.monotonic() + 120
    while not (tmp_path / "ready").exists():
        assert node.poll() is None and time.monotonic() < deadline
        time.sleep(0.02)
    node.send_signal(signal.SIGTERM)
    for _ in range(5):
        time.sleep(0.05)
        node.send_signal(second)
    _, said = node.communicate(timeout=60)
    assert node.returncode == 1 and "Traceback" not in said, said
    assert (tmp_path / "saved").exists()


@pytest.mark.parametrize(("number", "hint"), [(signal.SIGKILL, True), (signal.SIGSEGV, False)])
def test_a_process_that_a_signal_ended_gets_a_message(tmp_path: Path, number: signal.Signals, hint: bool) -> None:
    script = tmp_path / "worker.py"
    script.write_text(
        f"import os, time\nif os.environ['RANK'] == '1':\n    os.kill(os.getpid(), {int(number)})\ntime.sleep(100)\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "collapse.launch.node", "--standalone", "--nproc-per-node=2", str(script)],
        capture_output=True, text=True, timeout=120, check=False,
        env=os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"},
    )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith(f"training process 1 was ended by {number.name}"), done.stderr
    assert ("when memory runs out" in done.stderr) == hint
    assert done.stderr.count("\n") == 1
