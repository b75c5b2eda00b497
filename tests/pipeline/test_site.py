"""Keys of a site, and their effect on jobs."""

import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml
from pydantic import ValidationError

from collapse.config.base import ConfigError
from collapse.config.execution import ExecutionConfig
from collapse.pipeline.site import Site, load_site

ROOT = Path(__file__).parents[2]


def written(folder: Path, site: Any) -> Path:
    path = folder / "site.yaml"
    path.write_text(site if isinstance(site, str) else yaml.safe_dump(site))
    return path


def execution(**keys: Any) -> ExecutionConfig:
    return ExecutionConfig(micro_batch_size=1, **keys)


def test_without_a_file_there_are_no_settings(tmp_path: Path) -> None:
    site = load_site(tmp_path / "site.yaml")
    assert site == Site()
    assert site.prelude == ""
    assert {name for name, value in site.job.items() if value is not None} == {"slurm_extra"}


def test_the_example_is_valid_and_shows_every_key() -> None:
    text = (ROOT / "config/site.example.yaml").read_text()
    assert load_site(ROOT / "config/site.example.yaml").gpu_partition == "gpu"
    assert {key for key in Site.model_fields if f"{key}:" not in text} == set()


def test_every_problem_is_listed_at_once(tmp_path: Path) -> None:
    site = {
        "acount": "x",
        "partition": "a b",
        "max_minutes": 59,
        "extra": ["--time=5", "--mem=1", "x"],
        "scratch": "tmp",
    }
    with pytest.raises(ConfigError) as refused:
        load_site(written(tmp_path, site))
    assert len(refused.value.problems) == 7
    for sentence in (
        "acount: unknown key; see config/site.example.yaml for those that exist (got 'x')",
        "partition: string should match pattern",
        "max_minutes: should be at least 60: a group of small jobs requests this time (got 59)",
        "extra[0]: --time is set by the key max_minutes (got '--time=5')",
        "extra[1]: --mem is set for each job by its rule (docs/cluster.md explains how to change it) (got '--mem=1')",
        "extra[2]: should be one long option of sbatch, such as --nice=100, without spaces or quotes (got 'x')",
        "scratch: string should match pattern",
    ):
        assert sentence in str(refused.value)


@pytest.mark.parametrize(
    "option",
    [
        "--part=gpu", "-pgpu", "-t 5", "--nice=1 --time=5", "--nice=$(id)", "--nice=1;id", "--nice='1'", "--array=1-9",
        "--gpus-per-node=1", "--ntasks-per-node=2", "--no-requeue", "--time-min=5", "--mem-per-cpu=9", "--wrap=id",
    ],
)  # fmt: skip
def test_an_option_that_another_key_or_rule_sets_is_rejected(option: str) -> None:
    with pytest.raises(ValidationError, match=r"is set by the key|is set for each job|one long option"):
        Site(extra=[option])


def test_other_options_and_all_kinds_of_constraints_are_accepted() -> None:
    extra = ["--exclusive=user", "--reservation=course_1", "--mail-type=FAIL", "--exclude=n1,n2", "--nice"]
    for constraint in ("a100", "[a100|h100]", "(a&b)|c*2"):
        options = Site(extra=extra, constraint=constraint).options
        assert options["constraint"] == constraint
        assert options["slurm_extra"] == " ".join(["--open-mode=append", *extra])


@pytest.mark.parametrize(("text", "problem"), [("a: [", "not valid YAML"), ("- 1", "should be a mapping of keys")])
def test_a_file_that_is_not_a_mapping_is_rejected(tmp_path: Path, text: str, problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        load_site(written(tmp_path, text))


@pytest.mark.parametrize(
    ("device", "gpu_partition", "gpus", "partition"),
    [("cpu", "gpu", 0, "cpu"), ("auto", None, 0, "cpu"), ("auto", "gpu", 4, "gpu"), ("cuda", None, 4, "cpu")],
)
def test_when_a_training_requests_gpus(device: str, gpu_partition: str | None, gpus: int, partition: str) -> None:
    site = Site(partition="cpu", gpu_partition=gpu_partition)
    asked = execution(device=device, processes=8, nodes=2)
    assert site.gpus(asked) == gpus
    assert site.partition_of(asked) == partition


def test_no_job_requests_more_time_than_the_site_allows() -> None:
    assert Site().minutes(1440) == 1440
    assert Site(max_minutes=60).minutes(1440) == 60
    assert Site(max_minutes=60).minutes(10) == 10


def bash(script: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["bash", "-c", script], capture_output=True, text=True, env=environment, check=False)


MODULE = 'module() { [ "$2" != missing ] && echo "loaded $2"; }; '


def test_a_job_loads_modules_runs_the_setup_and_creates_its_scratch_folder(tmp_path: Path) -> None:
    site = Site(modules=["cuda/12.8"], setup=["export A=${B:-1}"], scratch=f"{tmp_path}/$JOB")
    ran = bash(f"{MODULE}{site.prelude}ls -d $TMPDIR; touch $TMPDIR/x; echo $A", JOB="7", PATH="/usr/bin:/bin")
    loaded, name, scratch, variable = ran.stdout.split()
    assert (loaded, name, variable) == ("loaded", "cuda/12.8", "1")
    assert scratch.startswith(f"{tmp_path}/7/collapse.")


@pytest.mark.parametrize(("end", "code"), [("true", 0), ("exit 3", 3), ("false", 1), ("kill -TERM $$; sleep 9", -15)])
def test_a_job_removes_only_its_scratch_folder(tmp_path: Path, end: str, code: int) -> None:
    (tmp_path / "mine").touch()
    ran = bash(f"{Site(scratch=str(tmp_path)).prelude}set -e\ntouch $TMPDIR/x\n{end}", PATH="/usr/bin:/bin")
    assert ran.returncode == code
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.parametrize(
    ("site", "sentence"),
    [
        (Site(modules=["missing"]), "error: config/site.yaml: modules: cannot be loaded: missing"),
        (Site(scratch="/dev/null/x"), "error: config/site.yaml: scratch: no folder can be made in /dev/null/x"),
        (Site(setup=["true", "ls /nowhere"]), "error: config/site.yaml: setup: failed: ls /nowhere"),
    ],
)
def test_a_job_that_cannot_start_names_the_reason(site: Site, sentence: str) -> None:
    ran = bash(f"{MODULE}{site.prelude}echo on", PATH="/usr/bin:/bin")
    assert ran.returncode == 1
    assert ran.stdout == ""
    assert sentence in ran.stderr
