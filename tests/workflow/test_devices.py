"""What jobs are told of the machine: which devices they may use, and how many threads."""

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
    assert len(trainings := re.findall(r"collapse train .*", ran.stdout)) == 2
    assert {"--device cuda" in training for training in trainings} == {device == "cuda"}


def test_text_is_tokenized_by_as_many_threads_as_the_job_has(clean: Any, miniature: dict[str, Any]) -> None:
    miniature |= {"corpus": {"source": "sample"}}
    options = ("--dry-run", "--printshellcmds", "--quiet=host", "--workflow-profile=none", "--until=tokenize")
    for cores, threads in ((3, 3), (64, 4)):
        ran = clean.snakemake(*options, f"--configfile={clean.write_config(miniature)}", f"--cores={cores}")
        assert ran.returncode == 0, ran.stdout
        assert re.findall(r"collapse tokenize .* --threads (\d+)", ran.stdout) == [str(threads)]
