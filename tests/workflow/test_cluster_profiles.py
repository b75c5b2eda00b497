"""What the profiles for clusters ask for; that it works is seen in tests/cluster."""

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).parents[2]
PROFILES = {name: ROOT / f"workflow/profiles/{name}/config.yaml" for name in ("slurm", "cluster-generic")}

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
        assert int(rules[rule]["runtime"]) >= 5, rule
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


SBATCH = """\
#!/bin/bash
echo "$*" >> submitted
[ -e run ] && bash "${@: -1}" > /dev/null 2>&1
echo 7
"""


def submitted(project: Any, *options: str) -> tuple[list[str], str]:
    """What is submitted, each with its script in the options' place, and what Snakemake says where every job fails."""
    tools = project.folder / "tools"
    tools.mkdir(exist_ok=True)
    for name, script in {"sbatch": SBATCH, "squeue": "#!/bin/bash\necho FAILED\n", "scancel": "#!/bin/bash\n"}.items():
        (tools / name).write_text(script)
        (tools / name).chmod(0o755)
    (project.folder / "submitted").write_text("")
    command = project.command(
        "--profile=workflow/profiles/cluster-generic", "--retries=0", "--latency-wait=0", *options
    )
    ran = subprocess.run(
        [*command, "--seconds-between-status-checks=1"],
        cwd=project.folder,
        env=project.environment() | {"PATH": f"{tools}:{os.environ['PATH']}"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=300,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout
    return (project.folder / "submitted").read_text().splitlines(), ran.stdout


CHECKS = {"collapsed_states", "swiglu_moment", "concentration"}


def shares_a_job(rule: str, output: Path) -> bool:
    """Whether a job is small enough to share a cluster's job with others."""
    return rule in ("join", "claims") or output.stem in CHECKS or (rule == "figure" and output.stem != "overview")


@pytest.mark.parametrize("made", ["nothing", "checks"])
def test_what_groups_of_the_paper_ask_for(clean: Any, made: str) -> None:
    options = ("--configfile=config/paper.yaml", "--rerun-triggers=mtime", "--quiet=host")
    planned = clean.snakemake("--dry-run", *ONE_MACHINE, *options).stdout
    for rule, outputs in re.findall(r"^ *rule (\w+):\n(?:    .*\n)*? +output: (.*)\n", planned, flags=re.MULTILINE):
        for path in (clean.folder / output for output in outputs.split(", ")):
            if not shares_a_job(rule, path) or (made == "checks" and path.stem in CHECKS):
                path.parent.mkdir(parents=True, exist_ok=True)
                path.mkdir(exist_ok=True) if path.suffix == ".zarr" else path.touch()
                os.utime(path, (1e9, 1e9))
    lines, _ = submitted(clean, *options)
    groups = [
        (found[1], line) for line in lines if (found := re.search(r"snakejob\.(figures|initialization|checks)", line))
    ]
    assert {name for name, _ in groups} == {"figures", "checks" if made == "nothing" else "initialization"}
    for name, line in groups:
        asked = dict(re.findall(r"--([a-z-]+)=(\S+)", line))
        assert asked["nodes"] == "1"
        assert "ntasks" not in asked
        assert int(asked["time"]) <= (240 if name == "checks" else 60), line
        assert int(asked["mem"]) <= 10000
        assert int(asked["cpus-per-task"]) <= 16


def test_a_job_that_fails_is_named_with_its_log_and_its_words(clean: Any, miniature: dict[str, Any]) -> None:
    configfile = clean.write_config(miniature | {"corpus": {"source": "shards", "files": ["broken/*.json.gz"]}})
    (clean.folder / "broken").mkdir()
    (clean.folder / "broken/c4-train.00000-of-00001.json.gz").write_text("no gzip")
    (clean.folder / "run").touch()
    _, said = submitted(clean, f"--configfile={configfile}", "--until=tokenizer")
    (clean.folder / "run").unlink()
    assert "Error in rule tokenizer" in said
    log = re.search(r"log: (\S+tokenizer\S*\.log)", said)
    assert log, said
    assert (clean.folder / log[1]).read_text().strip() in said


ENDED = "BOOT_FAIL CANCELLED DEADLINE FAILED LAUNCH_FAILED NODE_FAIL OUT_OF_MEMORY PREEMPTED RECONFIG_FAIL REVOKED"
ENDED += " SPECIAL_EXIT TIMEOUT"
SOCKET = "slurm_load_jobs error: Unable to contact slurm controller (connect failure)"
STATES = dict.fromkeys(ENDED.split(), "failed") | {
    "COMPLETED": "success",
    "slurm_load_jobs error: Invalid job id specified": "failed",
    **dict.fromkeys(("PENDING", "RUNNING", "COMPLETING", "REQUEUED", "SUSPENDED", SOCKET), "running"),
}


def test_every_state_of_slurm_is_known(tmp_path: Path) -> None:
    squeue = tmp_path / "squeue"
    squeue.write_text('#!/bin/bash\necho "$STATE"\n')
    squeue.chmod(0o755)
    status = ROOT / "workflow/profiles/cluster-generic/status.sh"

    def said(state: str) -> str:
        environment = {"PATH": f"{tmp_path}:{Path(sys.executable).parent}:/usr/bin:/bin", "STATE": state}
        return subprocess.run([status, "7"], env=environment, capture_output=True, text=True, check=True).stdout.strip()

    assert {state: said(state) for state in STATES} == STATES


def test_every_group_has_a_size() -> None:
    """One rule's figures are in two groups; the sizes stand once, in the profile that is always loaded."""
    rules = "".join(path.read_text() for path in ROOT.glob("workflow/rules/*.smk"))
    named = set(re.findall(r'^    group:\n.*?"(\w+)"$', rules, re.MULTILINE)) | {"initialization", "figures"}
    assert named == set(yaml.safe_load((ROOT / "profiles/default/profile.yaml").read_text())["group-components"])


def test_both_profiles_agree() -> None:
    slurm, generic = (yaml.safe_load(path.read_text()) for path in PROFILES.values())
    keys = ("resources", "jobs", "retries", "latency-wait")
    assert {key: slurm[key] for key in keys} == {key: generic[key] for key in keys}
