"""What runs again after which change, and what does not: a table of dry runs over one finished workflow."""

import os
import random
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

FIGURES_OF_RUNS = {
    "gradient_contribution": 2,
    "contraction": 2,
    "gradient_norms": 1,
    "frequency_loss": 1,
    "tsim_heatmap": 2,
    "overview": 1,
}
FIGURES = FIGURES_OF_RUNS | {"at initialization": 9}
RUNS = {"train": 2, "summary": 1, **FIGURES_OF_RUNS, "report": 1}
INCREMENTS = {"slice of increments": 1, "increments": 1}
PROBES_OF_TEXT = INCREMENTS | {"slice of attention": 2, "attention": 1, "approximations": 1}
DRAWS = {"collapsed_states": 1, "swiglu_moment": 1, "concentration": 1}


def shown(**jobs: int) -> dict[str, int]:
    """Jobs of datasets, and what follows from them."""
    return {**jobs, "claims": 1, "report": 1}


STACKS = shown(**PROBES_OF_TEXT, **{"at initialization": 7})
EVERYTHING = {"tokenizer": 1, "tokenize": 1, **RUNS, **PROBES_OF_TEXT, **DRAWS, **FIGURES, "claims": 1}

Config = dict[str, Any]


def what(job: Any) -> str:
    """A job by its rule, or where one rule serves many by what it makes: a dataset, or a family of figures."""
    stem = Path(job.output).stem
    if job.rule == "figure":
        return next((family for family in FIGURES_OF_RUNS if family in stem), "at initialization")
    if job.rule == "slice":
        return f"slice of {stem.split('-')[0]}"
    return stem if job.rule in ("dataset", "join") else str(job.rule)


def rules(jobs: Any) -> dict[str, int]:
    return dict(Counter(map(what, jobs)))


def respell(config: Config) -> Config:
    config["grid"]["product"]["lr"] = ["1.0e-03", "0.010"]
    config["training"]["lr"] = "1e-3"
    config["model"]["embedding_std"] = 1
    config["model"]["width"] = 16.0
    return config


def reorder(config: Any) -> Any:
    if isinstance(config, dict):
        keys = list(config)
        random.Random(0).shuffle(keys)
        return {key: reorder(config[key]) for key in keys}
    return config


def add(section: str, **values: Any) -> Callable[[Config], Config]:
    def change(config: Config) -> Config:
        config.setdefault(section, {}).update(values)
        return config

    return change


CONFIG_CHANGES: list[Any] = [
    pytest.param(lambda config: config, {}, id="nothing changed"),
    pytest.param(respell, {}, id="numbers respelled"),
    pytest.param(reorder, {}, id="keys reordered"),
    pytest.param(add("grid", extra=[{"lr": 1e-3}, {"lr": 0.01, "seed": 0}]), {"report": 1}, id="duplicate runs added"),
    pytest.param(add("execution", threads=2, micro_batch_size=2, log_seconds=9), {}, id="execution changed"),
    pytest.param(add("execution", time_limit=3600), {}, id="time limit set"),
    pytest.param(add("figures", dpi=70), FIGURES | {"report": 1}, id="style key changed"),
    pytest.param(add("figures", layer_stride=5, window=2), FIGURES | {"report": 1}, id="two style numbers swapped"),
    pytest.param(
        add("analysis", final_steps=4), {"summary": 1, **FIGURES_OF_RUNS, "report": 1}, id="analysis key changed"
    ),
    pytest.param(add("model", layers=2, heads=4), RUNS | STACKS, id="layers and heads swapped"),
    pytest.param(add("training", batch_size=8), RUNS, id="training key changed"),
    pytest.param(
        add("tokens", validation_fraction=0.2),
        {"tokenizer": 1, "tokenize": 1, **RUNS, **STACKS},
        id="token key changed",
    ),
    pytest.param(add("probe", seeds=3), shown(**INCREMENTS, **{"at initialization": 4}), id="a seed more"),
    pytest.param(add("probe", window=1), STACKS, id="another window"),
    pytest.param(
        add("monte_carlo", seed=1),
        shown(**DRAWS, approximations=1, **{"at initialization": 3}),
        id="seed of the draws changed",
    ),
    pytest.param(lambda config: config | {"name": "other"}, EVERYTHING, id="name changed"),
    pytest.param(
        lambda config: config | {"grid": {"product": {"lr": [1e-3]}}},
        {"summary": 1, "gradient_contribution": 1, "contraction": 1, "gradient_norms": 1}
        | {"frequency_loss": 1, "overview": 1, "report": 1},
        id="learning rate taken away",
    ),
]


@pytest.mark.parametrize(("change", "expected"), CONFIG_CHANGES)
def test_a_changed_config_reruns_what_depends_on_it(
    finished: Any, miniature: Config, change: Callable[[Config], Config], expected: dict[str, int]
) -> None:
    assert rules(finished.planned(finished.write_config(change(miniature), "changed.yaml"))) == expected


def test_a_new_learning_rate_trains_one_run_and_redraws_what_shows_it(finished: Any, miniature: Config) -> None:
    miniature["grid"]["product"]["lr"].append(2e-2)
    jobs = finished.planned(finished.write_config(miniature, "changed.yaml"))
    assert rules(jobs) == {
        "train": 1,
        "summary": 1,
        "gradient_contribution": 1,
        "contraction": 1,
        "gradient_norms": 1,
        "frequency_loss": 1,
        "tsim_heatmap": 1,
        "overview": 1,
        "report": 1,
    }
    outputs = {Path(job.output).name for job in jobs}
    assert {
        "fig12_lr1_gradient_contribution.png",
        "fig13_lr1_contraction.png",
        "fig14_lr1_gradient_norms.png",
    } < outputs


def test_a_second_seed_trains_one_run_and_adds_its_figures(finished: Any, miniature: Config) -> None:
    miniature["grid"]["extra"] = [{"lr": 1e-2, "seed": 1}]
    jobs = finished.planned(finished.write_config(miniature, "changed.yaml"))
    assert rules(jobs)["train"] == 1
    figures = {Path(job.output).name.split("-")[0] for job in jobs if "/figures/" in job.output}
    assert figures == {
        "fig10_second_seed_gradient_contribution.png",
        "fig11_second_seed_contraction.png",
        "tsim_heatmap_post",
        "overview.png",
    }


CODE_CHANGES = [
    pytest.param("figures/contraction.py", {"contraction": 2, "report": 1}, id="one figure's code"),
    pytest.param("figures/style.py", FIGURES | {"report": 1}, id="the style's code"),
    pytest.param("analysis/summary.py", {"summary": 1, **FIGURES_OF_RUNS, "report": 1}, id="the analysis's code"),
    pytest.param("training/learning_rate.py", RUNS, id="the training's code"),
    pytest.param("model/decoder.py", RUNS | STACKS | {"collapsed_states": 1}, id="the model's code"),
    pytest.param("corpus/tokenize.py", {"tokenize": 1, **RUNS, **STACKS}, id="the tokenization's code"),
    pytest.param("probes/increments.py", shown(**INCREMENTS, **{"at initialization": 4}), id="a probe's code"),
    pytest.param("theory/concentration.py", shown(concentration=1, **{"at initialization": 1}), id="the theory's code"),
    pytest.param("claims/judging.py", {"claims": 1, "report": 1}, id="the claims' code"),
    pytest.param("cli.py", {}, id="the command line's code"),
]


@pytest.mark.parametrize(("module", "expected"), CODE_CHANGES)
def test_changed_code_reruns_the_stages_that_use_it(finished: Any, module: str, expected: dict[str, int]) -> None:
    path = finished.folder / "src/collapse" / module
    with path.open("a") as file:
        size = path.stat().st_size
        file.write("\n_CHANGED = 1\n")
    try:
        assert rules(finished.planned("miniature.yaml")) == expected
    finally:
        os.truncate(path, size)


def test_comments_docstrings_and_formatting_rerun_nothing(finished: Any) -> None:
    originals = {path: path.read_text() for path in (finished.folder / "src").rglob("*.py")}
    try:
        for path, text in originals.items():
            lines = text.splitlines()
            assert lines[0].startswith('"""'), f"{path} has no docstring"
            lines[0] = '"""Changed: ' + lines[0].removeprefix('"""')
            path.write_text("\n\n# A comment.\n" + "\n".join(lines) + "\n\n\n# Another.\n")
        assert finished.planned("miniature.yaml") == []
    finally:
        for path, text in originals.items():
            path.write_text(text)


def test_touched_files_rerun_nothing(finished: Any) -> None:
    for folder in ("src", "workflow", "config", "profiles", "text"):
        for path in (finished.folder / folder).rglob("*"):
            path.touch()
    for name in ("Snakefile", "environment.yml", "miniature.yaml"):
        (finished.folder / name).touch()
    assert finished.planned("miniature.yaml") == []


@pytest.mark.parametrize(
    ("missing", "rule"),
    [
        ("probes/approximations.json", "approximations"),
        ("probes/collapsed_states.json", "collapsed_states"),
        ("theory/swiglu_moment.json", "swiglu_moment"),
        ("runs/*/manifest.json", "train"),
        ("tokens/*/manifest.json", "tokenize"),
        ("summary.csv", "summary"),
        ("claims.csv", "claims"),
        ("figures/fig02_deescalation.png", "at initialization"),
    ],
)
def test_a_result_that_was_deleted_is_made_again(finished: Any, missing: str, rule: str) -> None:
    path = sorted((finished.folder / "results/miniature").glob(missing))[0]
    kept = path.with_name(path.name + ".kept")
    path.rename(kept)
    try:
        assert rules(finished.planned("miniature.yaml")).get(rule) == 1
    finally:
        kept.rename(path)


def test_changed_text_is_tokenized_again(finished: Any) -> None:
    (shard,) = (finished.folder / "text").iterdir()
    before = shard.read_bytes()
    shard.write_bytes(before + before)
    try:
        assert rules(finished.planned("miniature.yaml")) == {"tokenizer": 1, "tokenize": 1, **RUNS, **STACKS}
    finally:
        shard.write_bytes(before)
