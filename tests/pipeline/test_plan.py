import json
from pathlib import Path
from typing import Any

import pytest

from collapse.config.base import ConfigError
from collapse.config.identity import canonical_json
from collapse.config.root import load
from collapse.pipeline.datasets import DATASETS
from collapse.pipeline.plan import plan


def slices(raw: dict[str, Any]) -> dict[str, str]:
    """All slices of a config that occur in the parameters of rules."""
    made = plan(raw, "small.yaml")
    whole = {name: getattr(made, name) for name in ("analysis", "style", "report")}
    text = {"data": made.data(made.config.data.tokens_id), "corpus": made.corpus(made.config.data.corpus_id)}
    first = next(iter(made.runs))
    datasets = {name: made.dataset(name) for name in DATASETS}
    execution = canonical_json(made.execution(first).canonical())
    return whole | text | datasets | {"run": made.run(first), "execution": execution}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


STACKS = {"increments", "attention", "approximations"}


@pytest.mark.parametrize(
    ("section", "key", "value", "concerned"),
    [
        ("figures", "dpi", 80, {"style", "report"}),
        ("figures", "roles", {"stable": {"lr": 2e-3}}, {"report"}),
        ("analysis", "final_steps", 5, {"analysis", "report"}),
        ("execution", "threads", 3, {"execution"}),
        ("training", "clip", 2.0, {"run", "report"}),
        ("tokens", "max_tokens", 5000, {"data", "run", "report", *STACKS}),
        ("corpus", "documents", 10, {"corpus", "data", "run", "report", *STACKS}),
        ("model", "rope_base", 500, {"run", "report", *STACKS}),
        ("model", "norm_eps", 1e-6, {"run", "report"}),
        ("model", "placement", "pre", {"run", "report"}),
        ("probe", "corpus", {"source": "sample", "documents": 9}, {"report", *STACKS}),
        ("probe", "window", 1, {"report", *STACKS}),
        ("probe", "seeds", 3, {"report"}),
        ("probe", "deescalations", [0, 1], {"increments", "report"}),
        ("probe", "variance_scales", ["1.0"], {"increments", "approximations", "swiglu_moment", "report"}),
        ("monte_carlo", "weight_draws", 9, {"approximations", "report"}),
        (
            "monte_carlo",
            "seed",
            1,
            {"approximations", "swiglu_moment", "concentration", "collapsed_states", "report"},
        ),
        ("training", "lr", "1e-3", set()),
        ("execution", "time_limit", 3600, {"execution"}),
        ("record", "every", 5, {"run", "report"}),
        ("record", "dense", [[2, 4]], {"run", "report"}),
    ],
)
def test_a_slice_contains_exactly_the_keys_that_matter(
    raw: dict[str, Any], section: str, key: str, value: Any, concerned: set[str]
) -> None:
    before = slices(raw)
    raw.setdefault(section, {})[key] = value
    assert changed(before, slices(raw)) == concerned


def test_slices_are_strings_of_canonical_json(raw: dict[str, Any]) -> None:
    for text in slices(raw).values():
        assert json.dumps(json.loads(text), sort_keys=True, separators=(",", ":")) == text


def test_figures_name_the_manifests_of_the_runs_they_show(raw: dict[str, Any]) -> None:
    made = plan(raw, "small.yaml")
    stable, collapsing = made.runs
    assert made.figure_inputs("fig04_contraction") == [f"results/small/runs/{collapsing}/manifest.json"]
    assert made.figure_inputs("fig22_stable_contraction") == [f"results/small/runs/{stable}/manifest.json"]
    assert made.figure_inputs("fig02_deescalation") == ["results/small/probes/increments.json"]


def test_local_files_are_inputs(raw: dict[str, Any], tmp_path: Any) -> None:
    for name in ("b.json.gz", "a.json.gz"):
        (tmp_path / name).touch()
    raw["corpus"] = {"source": "shards", "files": [f"{tmp_path}/*.json.gz", "missing.json.gz"]}
    raw["tokens"] = {"tokenizer": {"kind": "file", "path": "my.model"}}
    made = plan(raw, "small.yaml")
    (tokens_id,) = made.token_stores
    assert made.corpora == {}
    assert made.fetched(tokens_id) is None
    assert made.local_text(tokens_id) == [
        f"{tmp_path}/a.json.gz",
        f"{tmp_path}/b.json.gz",
        "missing.json.gz",
        "my.model",
    ]


def test_probes_can_read_a_different_text_from_the_runs(raw: dict[str, Any]) -> None:
    raw["probe"] = {"corpus": {"source": "sample", "documents": 9}}
    made = plan(raw, "small.yaml")
    runs, probes = made.token_stores
    assert (runs, probes) == (made.config.data.tokens_id, made.config.probe_data.tokens_id)
    assert made.fetched(runs) != made.fetched(probes)


def test_seeds_are_split_into_jobs(raw: dict[str, Any]) -> None:
    raw["probe"] = {"seeds": 5, "initializations": 2, "seeds_per_job": 2}
    made = plan(raw, "small.yaml")
    assert made.slices("increments") == [(0, 2), (2, 4), (4, 5)]
    assert made.slices("attention") == [(0, 2)] and made.slices("concentration") == []
    assert made.slice_manifests("increments")[2] == "results/small/probes/slices/increments-4-5.json"


def test_scratch_folders_identify_spec_and_seeds(raw: dict[str, Any]) -> None:
    made = plan(raw, "small.yaml")
    first, other = made.job_scratch("increments", 0, "2"), made.job_scratch("increments", "0", 3)
    assert first == made.job_scratch("increments", "0", 2) != other
    raw["probe"] = {"window": 1}
    assert plan(raw, "small.yaml").job_scratch("increments", 0, 2) != first


def test_problems_name_the_file(raw: dict[str, Any]) -> None:
    raw["model"]["layers"] = 0
    with pytest.raises(ConfigError, match=r"^small\.yaml: 1 problem\n  model\.layers: "):
        plan(raw, "small.yaml")


def test_jobs_read_a_copy_of_the_config(raw: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    made = plan(raw, "small.yaml")
    path = made.snapshot()
    assert load(path) == made.config
    raw["training"]["lr"] = "1.0e-3"
    assert plan(raw, "small.yaml").snapshot() == path
    raw["execution"]["threads"] = 2
    assert plan(raw, "small.yaml").snapshot() != path


def test_a_run_uses_no_more_processes_than_it_has_sequences(raw: dict[str, Any]) -> None:
    raw["execution"] |= {"processes": 8, "nodes": 2, "threads": 3}
    raw["training"]["batch_size"] = 16
    raw["grid"] = {"product": {"scope": ["stream", "sequence"]}}
    made = plan(raw, "small.yaml")
    stream, sequence = made.runs
    shared, alone = (made.execution(run_id) for run_id in (stream, sequence))
    assert (shared.processes, shared.nodes, made.train_threads(stream)) == (8, 2, 12)
    assert (alone.processes, alone.nodes, made.train_threads(sequence)) == (1, 1, 3)
