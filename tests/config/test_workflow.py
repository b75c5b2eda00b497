import json
from typing import Any

import pytest

from collapse.config.base import ConfigError
from collapse.config.workflow import plan


def slices(raw: dict[str, Any]) -> dict[str, str]:
    """Everything that a rule's parameters hold of a config."""
    made = plan(raw, "small.yaml")
    whole = {name: getattr(made, name) for name in ("corpus", "data", "analysis", "style", "report", "execution")}
    return whole | {"run": made.run(next(iter(made.runs)))}


def changed(before: dict[str, str], after: dict[str, str]) -> set[str]:
    return {name for name in before if before[name] != after[name]}


@pytest.mark.parametrize(
    ("section", "key", "value", "concerned"),
    [
        ("figures", "dpi", 80, {"style", "report"}),
        ("figures", "roles", {"stable": {"lr": 2e-3}}, {"report"}),
        ("analysis", "final_steps", 5, {"analysis", "report"}),
        ("execution", "threads", 3, {"execution"}),
        ("training", "clip", 2.0, {"run", "report"}),
        ("tokens", "max_tokens", 5000, {"data", "run", "report"}),
        ("corpus", "documents", 10, {"corpus", "data", "run", "report"}),
        ("training", "lr", "1e-3", set()),
    ],
)
def test_a_slice_holds_what_matters_and_no_more(
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
    assert made.figure_inputs("fig04_contraction", "run") == [f"results/small/runs/{collapsing}/manifest.json"]
    assert made.figure_inputs("fig22_stable_contraction", "run") == [f"results/small/runs/{stable}/manifest.json"]
    assert made.figure_inputs("fig06_frequency_loss", "no-warmup") == []


def test_local_files_are_inputs(raw: dict[str, Any], tmp_path: Any) -> None:
    for name in ("b.json.gz", "a.json.gz"):
        (tmp_path / name).touch()
    raw["corpus"] = {"source": "shards", "files": [f"{tmp_path}/*.json.gz", "missing.json.gz"]}
    raw["tokens"] = {"tokenizer": {"kind": "file", "path": "my.model"}}
    made = plan(raw, "small.yaml")
    assert not made.samples_corpus
    assert made.local_text == [
        f"{tmp_path}/a.json.gz",
        f"{tmp_path}/b.json.gz",
        "missing.json.gz",
        "my.model",
    ]


def test_problems_carry_the_files_name(raw: dict[str, Any]) -> None:
    raw["model"]["layers"] = 0
    with pytest.raises(ConfigError, match=r"^small\.yaml: 1 problem\n  model\.layers: "):
        plan(raw, "small.yaml")
