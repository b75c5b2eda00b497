from typing import Any

import pytest

from collapse.config.root import Config, parse
from collapse.pipeline.datasets import DATASETS
from collapse.pipeline.gallery import GALLERY, figures

LADDER = {
    "product": {"lr": [4e-3, 1e-3, 5e-3, 2e-3, 3e-3, 6e-3]},
    "extra": [
        {"lr": 2e-3, "seed": 1},
        {"placement": "pre", "lr": 1e-4},
        {"lr": 1e-5, "scope": "batch"},
        {"warmup_steps": 0, "scope": "stream"},
        {"warmup_steps": 0, "scope": "sequence"},
    ],
}


def config_with(raw: dict[str, Any], grid: dict[str, Any]) -> Config:
    return parse(raw | {"grid": grid})


def test_the_gallery_has_every_figure_of_the_paper(raw: dict[str, Any]) -> None:
    drawn = figures(config_with(raw, LADDER))
    assert sorted(drawn.values(), key=lambda figure: figure.number or 99) == list(drawn.values())
    assert [figure.number for figure in drawn.values() if figure.number] == list(range(1, 23))
    assert all(figure.name.startswith(f"fig{figure.number:02d}_") for figure in drawn.values() if figure.number)
    assert sum(figure.family == "tsim_heatmap" for figure in drawn.values()) == 11
    assert drawn["fig03_sublayer_gradient_contribution"].runs == drawn["fig04_contraction"].runs
    losses = drawn["fig06_frequency_loss"].runs
    assert {option: len(shown) for option, shown in losses.items()} == {"no_warmup": 2, "warmup": 3}


@pytest.mark.parametrize(
    ("grid", "numbers"),
    [
        ({"product": {"lr": [1e-3]}}, [3, 4, 5, 6]),
        ({"product": {"lr": [1e-3, 2e-3]}}, [3, 4, 5, 6, 21, 22]),
        ({"product": {"lr": [1e-3, 2e-3, 3e-3]}}, [3, 4, 5, 6, 12, 13, 14, 21, 22]),
        ({"product": {"placement": ["pre"]}}, []),
        ({"extra": [{"warmup_steps": 0}]}, [6]),
    ],
)
def test_figures_of_roles_without_a_run_are_left_out(raw: dict[str, Any], grid: Any, numbers: list[int]) -> None:
    drawn = figures(config_with(raw, grid)).values()
    assert [figure.number for figure in drawn if figure.number and figure.runs] == numbers


def test_figures_at_initialization_need_no_run(raw: dict[str, Any]) -> None:
    drawn = [
        figure
        for figure in figures(config_with(raw, {"product": {"placement": ["pre"]}})).values()
        if figure.at_initialization
    ]
    assert [figure.number for figure in drawn] == [1, 2, 7, 8, 9, None, None, None, None]
    assert not any(figure.runs for figure in drawn)
    assert drawn[0].data == drawn[1].data == "probes/increments"


def test_every_dataset_of_the_gallery_exists() -> None:
    shown = {row.shows["data"] for row in GALLERY if "data" in row.shows}
    assert shown <= {f"{dataset.place}/{name}" for name, dataset in DATASETS.items()}


def test_only_datasets_are_named_data(raw: dict[str, Any]) -> None:
    for figure in figures(config_with(raw, LADDER)).values():
        assert figure.at_initialization == ("data" in figure.inputs)
        assert set(figure.runs) == set(figure.inputs) - {"data"}
