"""Where a training that asked for GPUs may run."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml


@pytest.fixture
def site(clean: Any) -> Iterator[Path]:
    path = clean.folder / "config/site.yaml"
    yield path
    path.unlink(missing_ok=True)


@pytest.mark.parametrize(
    ("options", "partition", "device"),
    [
        (("--profile=workflow/profiles/slurm",), "gpu", "cuda"),
        (("--cores=2", "--mode=remote", "--workflow-profile=none"), "gpu", "cuda"),
        (("--profile=workflow/profiles/slurm",), None, "auto"),
        (("--cores=2", "--workflow-profile=none"), "gpu", "auto"),
    ],
    ids=["login node", "in its job", "no partition", "one machine"],
)
def test_a_training_that_asked_for_gpus_runs_on_nothing_else(
    clean: Any, miniature: dict[str, Any], site: Path, options: tuple[str, ...], partition: str | None, device: str
) -> None:
    site.write_text(yaml.safe_dump({"gpu_partition": partition}))
    miniature |= {"corpus": {"source": "sample"}}
    ran = clean.snakemake(
        "--dry-run", "--printshellcmds", "--quiet=host", f"--configfile={clean.write_config(miniature)}", *options
    )
    assert ran.returncode == 0, ran.stdout
    assert set(re.findall(r'--execution .*?"device":"(\w+)"', ran.stdout)) == {device}
