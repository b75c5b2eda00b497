import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from collapse import cli
from collapse.config.root import Config, parse
from collapse.pipeline.gallery import figures
from collapse.pipeline.paths import ResultPaths, results
from collapse.pipeline.plan import Plan

ROOT = Path(__file__).parents[1]


@pytest.fixture
def config() -> Config:
    return parse(
        {
            "name": "small",
            "corpus": {"source": "sample"},
            "tokens": {"tokenizer": {"kind": "train", "vocab_size": 512}},
            "model": {"layers": 2, "width": 16, "heads": 2, "ffn_width": 32, "sequence_length": 16, "vocab_size": 512},
            "training": {"steps": 12, "warmup_steps": 4, "lr": 1e-3, "batch_size": 4},
            "execution": {"micro_batch_size": 2},
            "grid": {"product": {"lr": [1e-3, 2e-3, 3e-3]}, "extra": [{"lr": 2e-3, "seed": 1}, {"warmup_steps": 0}]},
        }
    )


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, config: Config) -> ResultPaths:
    """A folder with a config and its results: one file in every folder that the config refers to."""
    monkeypatch.chdir(tmp_path)
    Path("config").mkdir()
    Path("config/small.yaml").write_text(yaml.safe_dump(config.canonical()))
    paths = results("small")
    run_id = next(iter(config.runs))
    used = [
        paths.corpus(config.data.corpus_id),
        paths.tokens(config.data.tokens_id),
        paths.run(run_id),
        Plan(config).train_scratch(run_id),
        paths.figures,
    ]
    for folder in used:
        fill(folder)
    for name in figures(config):
        (paths.figures / f"{name}.png").write_text("picture")
    (paths.figures / "file").unlink()
    return paths


def fill(folder: Path) -> Path:
    folder.mkdir(parents=True)
    (folder / "file").write_text("x" * 1000)
    return folder


@pytest.fixture
def collapse(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run the command; returns its exit status, stdout and stderr."""

    def run(*arguments: str) -> tuple[int | str | None, str, str]:
        monkeypatch.setattr("sys.argv", ["collapse", *arguments])
        with pytest.raises(SystemExit) as exited:
            cli.main()
        return exited.value.code, *capsys.readouterr()

    return run


def test_gc_keeps_results_that_a_config_refers_to(project: ResultPaths, collapse: Any) -> None:
    code, printed, _ = collapse("gc", "--remove")
    assert (code, printed) == (0, "nothing to remove: every result belongs to a config\n")
    assert len(list(project.root.rglob("file"))) == 4


def leftovers(paths: ResultPaths, config: Config) -> list[Path]:
    run_id = next(iter(config.runs))
    stale = [
        paths.corpus("sample-00000000"),
        paths.tokens("train-00000000"),
        paths.run("post-lr9e-03-seed0-00000000"),
        paths.scratch(f"{run_id}-000000000000"),
    ]
    (paths.root / "scratch/some-run.lock").touch()
    figure = paths.figures / "tsim_heatmap_post-lr9e-03-seed0-00000000.pdf"
    figure.write_text("x" * 1000)
    return [*map(fill, stale), figure]


def test_gc_lists_the_rest_and_removes_it_with_remove(project: ResultPaths, collapse: Any, config: Config) -> None:
    stale = leftovers(project, config)
    code, printed, _ = collapse("gc")
    lines = printed.splitlines()
    assert code == 0
    assert {line.split()[-1] for line in lines[:-1]} == {str(path) for path in stale}
    assert all("1.0 kB" in line for line in lines[:-1])
    assert lines[-1] == "5 to remove, 5.0 kB: collapse gc --remove"
    assert all(path.exists() for path in stale)

    code, printed, _ = collapse("gc", "--remove")
    assert code == 0 and printed.endswith("removed 5, 5.0 kB\n")
    assert not any(path.exists() for path in stale)
    assert len(list(project.root.rglob("file"))) == 4


def test_gc_keeps_results_of_all_configs_of_a_name(project: ResultPaths, collapse: Any, config: Config) -> None:
    other = config.canonical()
    other["training"]["seed"] = 7
    Path("config/other.yaml").write_text(yaml.safe_dump(other))
    fill(project.run(next(iter(parse(other).runs))))
    assert collapse("gc")[1].startswith("nothing to remove")
    assert collapse("gc", "--configfile", "config/small.yaml")[1].startswith("run ")


def test_gc_leaves_other_names_alone(project: ResultPaths, collapse: Any) -> None:
    fill(results("another").run("post-lr9e-03-seed0-00000000"))
    assert collapse("gc")[1].startswith("nothing to remove")


def test_gc_removes_nothing_while_snakemake_runs(project: ResultPaths, collapse: Any, config: Config) -> None:
    stale = leftovers(project, config)
    fill(Path(".snakemake/locks"))
    code, _, error = collapse("gc", "--remove")
    assert code == 1
    assert error.startswith("error: snakemake is running in this folder")
    assert all(path.exists() for path in stale)


def test_gc_removes_nothing_if_a_config_is_wrong(project: ResultPaths, collapse: Any, config: Config) -> None:
    stale = leftovers(project, config)
    Path("config/wrong.yaml").write_text("name: small\n")
    code, _, error = collapse("gc", "--remove")
    assert code == 1
    assert "config/wrong.yaml: 6 problems" in error
    assert "Traceback" not in error
    assert all(path.exists() for path in stale)


def test_gc_needs_a_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, collapse: Any) -> None:
    monkeypatch.chdir(tmp_path)
    code, _, error = collapse("gc")
    assert code == 1
    assert "start this command in the project's folder" in error


def test_runs_lists_roles_and_progress(project: ResultPaths, collapse: Any, config: Config) -> None:
    first, second, third, *_ = config.runs
    (project.run(first) / "manifest.json").write_text("{}")
    checkpoints = fill(Plan(config).train_scratch(second) / "checkpoints")
    (checkpoints / "step-00000008.json").write_text("{}")
    (project.root / f"scratch/{third}-0.lock").touch()
    code, printed, _ = collapse("runs", "--configfile", "config/small.yaml")
    assert code == 0
    states = ["done                     stable", "resumable at step 8      collapsing"]
    states += [f"to do                    {part}" for part in ("ablation 1", "second seed", "no warmup, stream")]
    assert printed.splitlines() == [f"{run_id:45} {state}" for run_id, state in zip(config.runs, states, strict=True)]


def test_plan_prints_every_run_and_the_totals(project: ResultPaths, collapse: Any, config: Config) -> None:
    code, printed, _ = collapse("plan", "--configfile", "config/small.yaml", "--device", "h100", "--devices", "2")
    assert code == 0
    assert [run_id for run_id in config.runs if run_id in printed] == list(config.runs)
    assert "5 runs of 13.4 k parameters: 0 done, 0 resumable, 5 to do" in printed
    assert "2 x h100" in printed and "a100" not in printed and "assumed" in printed


def test_plan_prints_only_json(project: ResultPaths, collapse: Any, config: Config) -> None:
    code, printed, _ = collapse("plan", "--configfile", "config/small.yaml", "--json")
    assert code == 0
    assert [run["run_id"] for run in json.loads(printed)["runs"]] == list(config.runs)


def test_plan_names_an_unknown_device(project: ResultPaths, collapse: Any) -> None:
    code, _, error = collapse("plan", "--configfile", "config/small.yaml", "--device", "abacus")
    assert code == 1
    assert error.startswith("error: --device abacus: not in the table of devices")


def test_generated_pages_match_the_code(tmp_path: Path, collapse: Any) -> None:
    code, printed, _ = collapse("docs", "--folder", str(tmp_path))
    assert code == 0
    assert printed.split() == ["config/README.md", "config/schema.json", "docs/metrics.md"]
    for name in printed.split():
        assert (tmp_path / name).read_text() == (ROOT / name).read_text(), "run `collapse docs`"
