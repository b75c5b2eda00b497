"""What the profiles for clusters ask for; that it works is seen in tests/cluster."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROFILES = {name: ROOT / f"workflow/profiles/{name}/config.yaml" for name in ("slurm", "cluster-generic")}
RULES = set(re.findall(r"^rule (\w+):", "".join(p.read_text() for p in ROOT.glob("workflow/rules/*.smk")), re.M))

Resources = dict[str, dict[str, str]]


@pytest.fixture
def site(clean: Any) -> Iterator[Path]:
    path = clean.folder / "config/site.yaml"
    yield path
    path.unlink(missing_ok=True)


ONE_MACHINE = ("--cores=64", "--workflow-profile=none")


def asked(project: Any, config: dict[str, Any], *options: str) -> Resources:
    """What the jobs of a dry run ask for, by rule."""
    configfile = project.write_config(config)
    ran = project.snakemake("--dry-run", f"--configfile={configfile}", *(options or ONE_MACHINE))
    assert ran.returncode == 0, ran.stdout
    found: Resources = {}
    for rule, block in re.findall(r"^rule (\w+):\n((?:    .*\n)+)", ran.stdout, flags=re.MULTILINE):
        fields = dict(re.findall(r"^    (\w+): (.*)$", block, flags=re.MULTILINE))
        found[rule] = dict(word.split("=", 1) for word in fields.get("resources", "").split(", ") if "=" in word)
        found[rule]["threads"] = fields.get("threads", "1")
    return found


@pytest.fixture
def text(clean: Any, miniature: dict[str, Any]) -> dict[str, Any]:
    """The miniature config, with the sample corpus: a dry run needs no file."""
    return miniature | {"corpus": {"source": "sample"}}


def test_every_job_says_what_it_takes(clean: Any, text: dict[str, Any]) -> None:
    rules = asked(clean, text)
    for rule in set(rules) - {"all"}:
        assert int(rules[rule]["mem_mb"]) >= 500, rule
        assert int(rules[rule]["runtime"]) >= 10, rule
    assert rules["train"] | {"gpus": "0", "gres": "none", "nodes": "1"} == rules["train"]
    assert not {"mpi", "tasks", "slurm_account", "slurm_partition"} & set(rules["train"])


def test_the_site_reaches_every_job(clean: Any, text: dict[str, Any], site: Path) -> None:
    site.write_text(yaml.safe_dump({"account": "me", "partition": "cpu", "gpu_partition": "gpu", "max_minutes": 100}))
    text["execution"] |= {"processes": 4, "nodes": 2, "threads": 3, "micro_batch_size": 1}
    rules = asked(clean, text)
    for rule in set(rules) - {"all"}:
        assert rules[rule]["slurm_account"] == "me", rule
        assert rules[rule]["slurm_partition"] == ("gpu" if rule == "train" else "cpu"), rule
        assert int(rules[rule]["runtime"]) <= 100, rule
    wanted = {"gpus": "2", "gres": "gpu:2", "nodes": "2", "tasks": "2", "mpi": "srun", "threads": "6"}
    assert rules["train"] | wanted == rules["train"]


@pytest.mark.parametrize("name", PROFILES)
def test_nodes_may_have_more_cores_than_the_login_node(clean: Any, text: dict[str, Any], name: str) -> None:
    text["execution"] |= {"threads": 1000}
    assert asked(clean, text, "--quiet=host", "--cores=2")["train"]["threads"] == "2"
    profile = f"--profile=workflow/profiles/{name}"
    assert asked(clean, text, profile, "--quiet=host")["train"]["threads"] == "1000"


def test_a_run_of_one_sequence_takes_one_node(clean: Any, text: dict[str, Any]) -> None:
    text["execution"] |= {"device": "cuda", "processes": 4, "nodes": 2, "micro_batch_size": 1}
    text["grid"] = {"extra": [{"scope": "sequence"}]}
    train = asked(clean, text)["train"]
    assert train | {"gpus": "1", "gres": "gpu:1", "nodes": "1"} == train
    assert not {"mpi", "tasks"} & set(train)


def test_a_site_that_is_wrong_is_refused_with_every_problem(clean: Any, text: dict[str, Any], site: Path) -> None:
    site.write_text("acount: me\nmax_minutes: soon\n")
    ran = clean.snakemake("--dry-run", f"--configfile={clean.write_config(text)}")
    assert ran.returncode == 1
    assert "Traceback" not in ran.stdout
    assert "config/site.yaml: 2 problems" in ran.stdout
    assert "acount: unknown key; see config/site.example.yaml" in ran.stdout
    assert "max_minutes: input should be a valid integer" in ran.stdout


@pytest.mark.parametrize("name", PROFILES)
def test_groups_are_of_rules_that_exist(name: str) -> None:
    profile = yaml.safe_load(PROFILES[name].read_text())
    assert set(profile["groups"]) <= RULES
    assert set(profile["groups"].values()) == set(profile["group-components"])


def test_both_profiles_group_alike() -> None:
    keys = ("groups", "group-components", "resources", "set-resource-scopes", "jobs", "retries", "latency-wait")
    slurm, generic = (yaml.safe_load(path.read_text()) for path in PROFILES.values())
    assert {key: slurm[key] for key in keys} == {key: generic[key] for key in keys}
