import copy
import random
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from collapse.config.base import ConfigError
from collapse.config.root import Config, load, parse

ROOT = Path(__file__).parents[2]


def put(raw: dict[str, Any], key: str, value: Any) -> dict[str, Any]:
    """A copy of a config with one dotted key set."""
    changed = copy.deepcopy(raw)
    *sections, last = key.split(".")
    node = changed
    for section in sections:
        node = node.setdefault(section, {})
    node[last] = value
    return changed


def problems(raw: dict[str, Any]) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(raw, "some.yaml")
    assert str(caught.value).startswith("some.yaml: ")
    return caught.value.problems


@pytest.mark.parametrize(
    ("key", "value", "sentence"),
    [
        ("grdi", {}, "grdi: unknown key"),
        ("model.dept", 3, "model.dept: unknown key; see config/README.md for those that exist (got 3)"),
        ("model.layers", "many", "model.layers: input should be a valid integer"),
        ("model.layers", 2.5, "model.layers: input should be a valid integer"),
        ("model.layers", True, "model.layers: should be a number, not a boolean (got True)"),
        ("model.layers", -1, "model.layers: input should be greater than 0 (got -1)"),
        ("model.width", 0, "model.width: input should be greater than 0 (got 0)"),
        ("model.sequence_length", 1, "model.sequence_length: input should be greater than or equal to 2 (got 1)"),
        ("model.heads", 3, "model: heads must divide width (got heads 3, width 16)"),
        ("model.heads", 16, "model: width / heads must be even for rotary positions (got 16 / 16 = 1)"),
        ("model.placement", "sandwich", "model.placement: input should be 'post' or 'pre' (got 'sandwich')"),
        ("training.lr", "fast", "training.lr: input should be a valid number"),
        ("training.lr", 0, "training.lr: input should be greater than 0 (got 0)"),
        ("training.lr", float("nan"), "training.lr: input should be"),
        ("training.lr", float("inf"), "training.lr: input should be a finite number (got inf)"),
        ("training.warmup_steps", 12, "training: warmup_steps must be below the horizon"),
        ("training.horizon", 6, "training: horizon must be at least steps (got horizon 6, steps 12)"),
        ("training.batch_size", 3, "grid.product: the 3 sequences per process and step cannot be split evenly"),
        ("execution.processes", 3, "grid.product: a step of 4 sequence(s) cannot be split evenly"),
        ("execution.nodes", 2, "execution: processes must be a multiple of nodes (got processes 1, nodes 2)"),
        ("execution.nodes", 0, "execution.nodes: input should be greater than 0 (got 0)"),
        ("execution.micro_batch_size", 0, "execution.micro_batch_size: input should be greater than 0 (got 0)"),
        ("execution.processes", 0, "execution.processes: input should be greater than 0 (got 0)"),
        ("execution.gradient_accumulation_steps", 0, "execution.gradient_accumulation_steps: unknown key"),
        ("tokens.tokenizer.vocab_size", 400, "grid.product: model.vocab_size must equal tokens.tokenizer.vocab_size"),
        ("tokens.tokenizer", {"kind": "wheel"}, "grid.product: model.vocab_size must be at least 32000"),
        ("tokens.tokenizer", {"kind": "magic"}, "tokens.tokenizer: input tag 'magic' found using 'kind'"),
        ("corpus", {"source": "shards"}, "corpus.files: this key is required, and is missing"),
        ("corpus", {"source": "shards", "files": []}, "corpus.files: list should have at least 1 item"),
        ("execution.time_limit", 0, "execution.time_limit: input should be greater than 0 (got 0)"),
        ("record.every", 0, "record.every: input should be greater than 0 (got 0)"),
        ("record.dense", [[5, 3]], "record: dense: a window must not end before it starts (got [5, 3])"),
        ("record.dense", [[0, 3], [3, 5]], "record: dense: windows must be in ascending order and must not overlap"),
        ("record.dense", [[6, 8], [1, 2]], "record: dense: windows must be in ascending order and must not overlap"),
        ("record.dense", [[-1, 2]], "record.dense[0][0]: input should be greater than or equal to 0 (got -1)"),
        ("record.dense", [[3]], "record.dense[0][1]: this key is required, and is missing"),
        (
            "record.dense",
            [[3, 12]],
            "grid.product: record.dense: the window ends after the run's last step, which",
        ),
        ("grid", {}, "grid: the grid is empty"),
        ("grid.product.lr", [], "grid.product.lr: list should have at least 1 item"),
        ("grid.product.lr", [1e-3, -1], "grid.product.lr[1]: input should be greater than 0 (got -1)"),
        ("grid.extra", [{"steps": 2}], "grid.extra[0].training: warmup_steps must be below the horizon"),
        ("grid.extra", [{"lr": 1, "sped": 2}], "grid.extra[0].sped: unknown key"),
        ("figures", {"palette": "nonsense"}, "figures.palette: input should be 'viridis', 'magma', 'plasma', "),
        ("figures", {"roles": {"stable": {"lr": 5}}}, "figures.roles.stable: no run of the grid agrees with it"),
        ("name", "../elsewhere", "name: string should match pattern"),
    ],
)
def test_a_problem_is_a_sentence_that_names_the_key(raw: dict[str, Any], key: str, value: Any, sentence: str) -> None:
    assert any(problem.startswith(sentence) for problem in problems(put(raw, key, value)))


def test_every_problem_is_listed_at_once(raw: dict[str, Any]) -> None:
    for key, value in {"model.layers": -1, "training.lr": "fast", "corpus.sauce": 1, "execution": {}}.items():
        raw = put(raw, key, value)
    keys = [problem.split(":")[0] for problem in problems(raw)]
    assert keys == ["corpus.sauce", "model.layers", "training.lr", "execution.micro_batch_size"]


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        ("- a list", "should be a mapping of sections (got list)"),
        ("a: [", "is not valid YAML"),
        ("\xff", "not valid YAML"),
    ],
)
def test_a_file_that_is_not_a_config_is_rejected(tmp_path: Path, content: str, sentence: str) -> None:
    path = tmp_path / "bad.yaml"
    path.write_bytes(content.encode("latin-1"))
    with pytest.raises(ConfigError, match=r"bad\.yaml") as caught:
        load(path)
    assert sentence in caught.value.problems[0]


def test_a_missing_file_is_rejected(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="cannot be read: No such file"):
        load(tmp_path / "none.yaml")


SPELLINGS = {
    6e-4: ["6e-4", "6.0e-4", "0.0006", "6E-4", "0.6e-3", "+6.0e-04"],
    0.001: ["1e-3", ".001", "0.0010"],
    2.0: ["2", "2.0", "20e-1"],
}


@pytest.mark.parametrize(
    ("value", "spelling"), [(value, spelling) for value, spellings in SPELLINGS.items() for spelling in spellings]
)
def test_the_notation_of_a_number_does_not_matter(raw: dict[str, Any], value: float, spelling: str) -> None:
    spelled = yaml.safe_load(f"lr: {spelling}")["lr"]
    assert list(parse(put(raw, "grid.product.lr", [spelled])).runs) == list(
        parse(put(raw, "grid.product.lr", [value])).runs
    )


@given(order=st.randoms(use_true_random=False))
def test_the_order_of_keys_does_not_matter(order: random.Random) -> None:
    def shuffled(node: Any) -> Any:
        if isinstance(node, dict):
            keys = list(node)
            order.shuffle(keys)
            return {key: shuffled(node[key]) for key in keys}
        return node

    raw = yaml.safe_load((ROOT / "config/config.yaml").read_text())
    assert set(parse(shuffled(raw)).runs) == set(parse(raw).runs)


def test_duplicate_runs_are_merged(raw: dict[str, Any]) -> None:
    raw = put(raw, "grid", {"product": {"lr": ["1e-3", 0.001, 2e-3]}, "extra": [{"lr": 2e-3}, {"lr": 2e-3, "seed": 1}]})
    runs = parse(raw).runs
    assert [(spec.training.lr, spec.training.seed) for spec in runs.values()] == [(1e-3, 0), (2e-3, 0), (2e-3, 1)]


def test_the_grid_combines_the_axes_and_adds_extra_runs(raw: dict[str, Any]) -> None:
    grid = {"product": {"placement": ["post", "pre"], "seed": [0, 1]}, "extra": [{"scope": "batch", "warmup_steps": 0}]}
    runs = parse(put(raw, "grid", grid)).runs
    assert [(s.model.placement, s.training.seed, s.training.scope) for s in runs.values()] == [
        ("post", 0, "stream"),
        ("post", 1, "stream"),
        ("pre", 0, "stream"),
        ("pre", 1, "stream"),
        ("post", 0, "batch"),
    ]


@pytest.mark.parametrize(
    ("key", "value"),
    [("training.seed", 3), ("model.layers", 4), ("record.floor_every", 7), ("tokens.validation_fraction", 0.1)],
)
def test_what_changes_the_numbers_changes_the_run(raw: dict[str, Any], key: str, value: Any) -> None:
    assert not set(parse(put(raw, key, value)).runs) & set(parse(raw).runs)


@pytest.mark.parametrize(
    ("key", "value"),
    [("execution.threads", 4), ("execution.micro_batch_size", 4), ("figures.dpi", 80), ("name", "other")],
)
def test_what_does_not_change_the_numbers_keeps_the_run(raw: dict[str, Any], key: str, value: Any) -> None:
    assert list(parse(put(raw, key, value)).runs) == list(parse(raw).runs)


def test_swapped_values_give_another_run(raw: dict[str, Any]) -> None:
    one = put(put(raw, "model.layers", 2), "model.heads", 4)
    two = put(put(raw, "model.layers", 4), "model.heads", 2)
    assert not set(parse(one).runs) & set(parse(two).runs)


def test_a_config_survives_its_canonical_form(raw: dict[str, Any]) -> None:
    config = parse(raw)
    assert parse(config.canonical()) == config


@pytest.mark.parametrize("path", [ROOT / "config/config.yaml", ROOT / "config/paper.yaml"], ids=lambda path: path.stem)
def test_the_configs_of_the_project_are_valid(path: Path) -> None:
    assert isinstance(load(path), Config)


def test_the_paper_config_holds_the_papers_values() -> None:
    config = load(ROOT / "config/paper.yaml")
    model, training = config.model, config.training
    assert (model.layers, model.width, model.heads, model.ffn_width) == (48, 512, 4, 1536)
    assert (model.sequence_length, model.vocab_size) == (2048, 32000)
    assert (model.tie_embeddings, model.embedding_std) == (True, 0.02)
    assert (training.steps, training.warmup_steps, training.batch_size) == (40000, 2000, 256)
    assert (training.betas, training.weight_decay, training.clip) == ((0.9, 0.95), 0.1, 1.0)
    runs = list(config.runs.values())
    warm = [r for r in runs if r.model.placement == "post" and r.training.warmup_steps]
    assert sorted({r.training.lr for r in warm}) == [6e-4, 8e-4, 1.2e-3, 1.5e-3, 1.8e-3]
    assert sorted(r.training.seed for r in warm if r.training.lr == 8e-4) == [0, 1]
    assert any(r.model.placement == "pre" for r in runs)
    assert {r.training.scope for r in runs if not r.training.warmup_steps} == {"stream", "batch", "sequence"}
    needed = training.steps * training.batch_size * model.sequence_length
    assert config.tokens.max_tokens is not None and config.tokens.max_tokens >= needed
