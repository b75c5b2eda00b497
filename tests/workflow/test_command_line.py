"""How the workflow is started, and what it says to a config that is wrong."""

import os
import subprocess
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]


def dry_run(project: Any, *options: str) -> str:
    ran = project.snakemake("--dry-run", "--workflow-profile=none", "--cores=2", *options)
    assert ran.returncode == 0, ran.stdout
    return str(ran.stdout)


def outputs(printed: str) -> set[str]:
    """Folders under results/ that a dry run would write to."""
    lines = [line.split(":", 1)[1] for line in printed.splitlines() if line.startswith("    output:")]
    return {path.strip().split("/")[1] for line in lines for path in line.split(",")}


def test_the_default_is_the_laptop_config(clean: Any) -> None:
    assert outputs(dry_run(clean)) == {"laptop"}


def test_the_papers_config_runs_alone(clean: Any) -> None:
    """No key of the default config mixes with those of another."""
    printed = dry_run(clean, "--configfile=config/paper.yaml")
    assert outputs(printed) == {"paper"}
    assert "config/config.yaml" not in printed


def test_one_key_can_be_changed_on_the_command_line(clean: Any) -> None:
    printed = dry_run(clean, "--config", "name=trial", "grid={product: {lr: [5e-3]}}")
    assert outputs(printed) == {"trial"}
    assert "rule train" in printed


def test_a_config_that_is_wrong_is_refused_with_every_problem(clean: Any, miniature: dict[str, Any]) -> None:
    miniature["model"] |= {"layers": -4, "depth": 3}
    miniature["training"]["lr"] = "fast"
    ran = clean.snakemake("--dry-run", f"--configfile={clean.write_config(miniature)}")
    assert ran.returncode == 1
    assert "Traceback" not in ran.stdout
    for sentence in (
        "miniature.yaml: 3 problems",
        "model.layers: input should be greater than 0 (got -4)",
        "model.depth: unknown key; see config/README.md for those that exist (got 3)",
        "training.lr: input should be a valid number, unable to parse string as a number (got 'fast')",
    ):
        assert sentence in ran.stdout


def test_missing_text_is_named(clean: Any, miniature: dict[str, Any]) -> None:
    miniature["corpus"]["files"] = ["nowhere/c4.json.gz"]
    ran = clean.snakemake("--dry-run", f"--configfile={clean.write_config(miniature)}")
    assert ran.returncode == 1
    assert "Missing input files" in ran.stdout
    assert "nowhere/c4.json.gz" in ran.stdout


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs make as from a shell, whether or not these tests were started by make themselves."""
    inherited = ("MAKEFLAGS", "MFLAGS", "MAKELEVEL", "MAKEOVERRIDES", "ARGS", "CONFIG", "CORES", "PYTHON")
    environment = {name: value for name, value in os.environ.items() if name not in inherited}
    return subprocess.run(["make", *arguments], cwd=folder, env=environment, capture_output=True, text=True)


@pytest.fixture
def ready(tmp_path: Path) -> Path:
    """A folder with a Makefile and an environment that is up to date."""
    for name in ("Makefile", "pyproject.toml", "requirements.lock"):
        (tmp_path / name).write_bytes((ROOT / name).read_bytes())
    (tmp_path / ".venv").mkdir()
    (tmp_path / ".venv/.ready").touch()
    return tmp_path


@pytest.mark.parametrize(
    ("goal", "command"),
    [
        (["results"], "snakemake --cores all"),
        (["results", "CONFIG=config/paper.yaml", "CORES=4"], "snakemake --cores 4 --configfile=config/paper.yaml"),
        (["test", "ARGS=-x"], "python -m pytest -x"),
        (["bench"], "python bench/run.py"),
    ],
)
def test_make_starts_what_it_says(ready: Path, goal: list[str], command: str) -> None:
    ran = make(ready, "--dry-run", *goal)
    assert command in [line.strip() for line in ran.stdout.splitlines()]


def test_make_sets_up_only_what_changed(ready: Path) -> None:
    assert make(ready, "--dry-run", "test").stdout.strip() == "python -m pytest"
    (ready / ".venv/.ready").unlink()
    assert "-r requirements.lock" in make(ready, "--dry-run", "test").stdout


def test_make_names_a_config_that_does_not_exist(ready: Path) -> None:
    ran = make(ready, "results", "CONFIG=none.yaml")
    assert ran.returncode != 0
    assert "error: no such config file: none.yaml" in ran.stderr


def test_make_clean_keeps_results(ready: Path) -> None:
    (ready / "results/laptop").mkdir(parents=True)
    assert make(ready, "clean").returncode == 0
    assert not (ready / ".venv").exists()
    assert (ready / "results/laptop").exists()
