"""A miniature project in a temporary folder, and one real run of its whole workflow that tests share."""

import copy
import gzip
import json
import os
import random
import re
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[1]

MINIATURE: dict[str, Any] = {
    "name": "miniature",
    "corpus": {"source": "shards", "files": ["text/*.json.gz"]},
    "tokens": {"tokenizer": {"kind": "train", "vocab_size": 320}, "validation_fraction": 0.1},
    "model": {
        "layers": 4,
        "width": 16,
        "heads": 2,
        "ffn_width": 32,
        "sequence_length": 16,
        "vocab_size": 320,
        "tie_embeddings": False,
        "embedding_std": 1.0,
    },
    "training": {"steps": 12, "warmup_steps": 4, "lr": 1e-3, "batch_size": 4},
    "record": {"validation_sequences": 4},
    "execution": {"micro_batch_size": 4, "checkpoint_every": 5},
    "grid": {"product": {"lr": [1e-3, 1e-2]}},
    "probe": {"seeds": 2, "initializations": 3, "seeds_per_job": 2},
    "monte_carlo": {"moment_draws": 2000, "weight_draws": 4, "networks": 1, "widths": [16, 32], "width_draws": 100},
    "figures": {"layer_stride": 2, "window": 5, "dpi": 60},
}


@dataclass(frozen=True)
class Job:
    """A job that a dry run announces."""

    rule: str
    output: str
    reason: str


@dataclass(frozen=True)
class Project:
    """A copy of the project: its workflow and its code, and a config of its own."""

    folder: Path

    def write_config(self, config: dict[str, Any], name: str = "miniature.yaml") -> str:
        (self.folder / name).write_text(yaml.safe_dump(config, sort_keys=False))
        return name

    def environment(self) -> dict[str, str]:
        """The stages run from this copy, not from the installed package."""
        return os.environ | {"PYTHONPATH": str(self.folder / "src")}

    def command(self, *options: str) -> list[str]:
        return [sys.executable, "-m", "snakemake", *options]

    def snakemake(self, *options: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.command(*options),
            cwd=self.folder,
            env=self.environment(),
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=1200,
        )

    def planned(self, configfile: str) -> list[Job]:
        """Jobs that would run, `all` left out."""
        ran = self.snakemake("--dry-run", "--cores=2", "--workflow-profile=none", f"--configfile={configfile}")
        assert ran.returncode == 0, ran.stdout
        blocks = re.findall(
            r"^( *)rule (\w+):\n((?:\1    .*\n)+)", ran.stdout, flags=re.MULTILINE
        )  # a group's are indented
        jobs = []
        for _, rule, block in blocks:
            fields = dict(re.findall(r"^ +(\w+): (.*)$", block, flags=re.MULTILINE))
            if rule != "all":
                jobs.append(Job(rule, fields["output"].split(", ")[0], fields["reason"]))
        assert bool(jobs) != ("Nothing to be done" in ran.stdout), ran.stdout
        return jobs


def write_text(folder: Path) -> None:
    """A C4-shaped shard of random sentences."""
    folder.mkdir()
    draw = random.Random(0)
    words = ["".join(draw.choices("abcdefghijklmnopqrstuvwxyz", k=draw.randint(2, 8))) for _ in range(400)]
    with gzip.open(folder / "c4-train.00000-of-00001.json.gz", "wt") as shard:
        for page in range(120):
            text = " ".join(draw.choices(words, k=120)) + "."
            document = {"text": text, "timestamp": "2020-01-01T00:00:00Z", "url": f"https://example.org/{page}"}
            shard.write(json.dumps(document) + "\n")


def copy_project(folder: Path) -> Project:
    for name in ("Snakefile", "environment.yml"):
        shutil.copy(ROOT / name, folder / name)
    for name in ("src", "workflow", "profiles", "config"):
        shutil.copytree(
            ROOT / name, folder / name, ignore=shutil.ignore_patterns("__pycache__", "*.egg-info", "site.yaml")
        )
    return Project(folder)


@pytest.fixture(scope="session")
def clean(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project in which nothing has run."""
    return copy_project(tmp_path_factory.mktemp("clean"))


@pytest.fixture(scope="session")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Project:
    """A project whose workflow has run to its end."""
    project = copy_project(tmp_path_factory.mktemp("finished"))
    write_text(project.folder / "text")
    configfile = project.write_config(MINIATURE)
    ran = project.snakemake("--cores=2", f"--configfile={configfile}")
    (project.folder / "first.log").write_text(ran.stdout)
    assert ran.returncode == 0, ran.stdout
    return project


@pytest.fixture
def miniature() -> dict[str, Any]:
    """The miniature config, to be changed."""
    return copy.deepcopy(MINIATURE)
