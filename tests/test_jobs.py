"""Jobs without Snakemake: memory limits, and logs of their output."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import psutil
import pytest

from collapse import jobs
from collapse.errors import CollapseError


def test_a_job_with_too_little_memory_does_not_start(make_plan: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    plan = make_plan()
    monkeypatch.setattr(psutil, "virtual_memory", lambda: SimpleNamespace(available=100_000_000))
    with pytest.raises(
        CollapseError, match=r"^attention: this needs about 0\.8 GB of memory, but 0\.1 GB are available: lower model\."
    ):
        jobs.measure(plan, "attention", (0, 8), 1)
    assert not plan.paths.root.exists()


PRINTS = """
import os, subprocess, sys
from pathlib import Path
from collapse import cli
from collapse.errors import CollapseError

def work():
    print("from Python")
    subprocess.run(["sh", "-c", "echo from a child >&2"], check=True)
    {ending}

cli._job(work, *map(Path, sys.argv[1:]))
"""


@pytest.mark.parametrize(
    ("ending", "status", "said"),
    [
        ("pass", 0, ""),
        ('raise CollapseError("no text")', 1, "error: no text\n"),
        ("[][1]", 1, "IndexError: list index out of range\n"),
    ],
)
def test_all_output_goes_to_the_logs(tmp_path: Path, ending: str, status: int, said: str) -> None:
    logs = [tmp_path / "logs/first.log", tmp_path / "logs/all.log"]
    logs[1].parent.mkdir()
    logs[1].write_text("before\n")
    command = [sys.executable, "-c", PRINTS.format(ending=ending), *map(str, logs)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == status, ran.stderr
    assert ran.stdout.startswith("from Python\nfrom a child\n") and ran.stdout.endswith(said)
    assert logs[0].read_text() == ran.stdout
    assert logs[1].read_text() == "before\n" + ran.stdout
