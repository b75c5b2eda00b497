"""The two changes of docs/extending.md, applied to a copy of the project as they stand there, and run."""

import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import xarray as xr
from miniature import ROOT, Project, copy_project

PAGE = ROOT / "docs/extending.md"
DIFFS = re.findall(r"```diff\n(.*?)```", PAGE.read_text(encoding="utf-8"), flags=re.DOTALL)


@pytest.fixture(scope="module")
def extended(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project with the dataset and the figure family of the page."""
    project = copy_project(tmp_path_factory.mktemp("extended"))
    assert len(DIFFS) == 2
    for diff in DIFFS:
        ran = subprocess.run(
            ["patch", "-p1", "--fuzz=0"], cwd=project.folder, input=diff, capture_output=True, text=True
        )
        assert ran.returncode == 0, ran.stdout + ran.stderr
    return project


def test_each_change_is_one_module_and_one_row() -> None:
    for diff in DIFFS:
        new, row = re.findall(r"^\+\+\+ b/(.*)$", diff, flags=re.MULTILINE)
        assert not (ROOT / new).exists() and (ROOT / row).exists()
        assert diff.count("\n@@ ") == 2
        assert not re.findall(r"^-[^-]", diff, flags=re.MULTILINE)


def test_the_workflow_measures_and_draws_them(extended: Project, miniature: dict[str, Any]) -> None:
    configfile = extended.write_config(miniature | {"corpus": {"source": "sample"}})
    picture = "results/miniature/figures/attention_curve.png"
    ran = extended.snakemake("--cores=2", f"--configfile={configfile}", picture)
    assert ran.returncode == 0, ran.stdout
    assert (extended.folder / picture).read_bytes().startswith(b"\x89PNG")
    data = xr.open_zarr(extended.folder / "results/miniature/theory/attention_curve.zarr")
    assert data["increment"].attrs["defined_in"] == "Theorem 3.2"
    assert (
        extended.snakemake("--cores=2", f"--configfile={configfile}", picture).stdout.count("Nothing to be done") == 1
    )


def collapse(project: Project, *arguments: str) -> str:
    command = [sys.executable, "-c", "from collapse.cli import main; main()", *arguments]
    ran = subprocess.run(command, cwd=project.folder, env=project.environment(), capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return ran.stdout


def test_they_are_known_to_the_commands(extended: Project, miniature: dict[str, Any]) -> None:
    configfile = extended.write_config(miniature | {"corpus": {"source": "sample"}})
    assert "attention_curve" in collapse(extended, "plan", "--configfile", configfile)
    picture = extended.folder / "results/miniature/figures/attention_curve.png"
    picture.unlink(missing_ok=True)
    collapse(extended, "probe", "--configfile", configfile, "--dataset", "attention_curve")
    collapse(extended, "figure", "--configfile", configfile, "--figure", "attention_curve")
    assert Path(picture).is_file()
    everything = extended.snakemake("--dry-run", "--quiet=host", f"--configfile={configfile}").stdout
    assert re.search(r"^rule report:\n(?:    .*\n)*?    input: .*attention_curve\.png", everything, flags=re.MULTILINE)
