from typing import Any

from collapse.config.root import Config, parse
from collapse.pipeline.roles import roles


def config_with(raw: dict[str, Any], grid: dict[str, Any], chosen: dict[str, Any] | None = None) -> Config:
    return parse(raw | {"grid": grid, "figures": {"roles": chosen or {}}})


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


def test_roles_follow_the_ladder_of_learning_rates(raw: dict[str, Any]) -> None:
    config = config_with(raw, LADDER)
    runs, cast = config.runs, roles(config)
    assert cast.stable and runs[cast.stable].training.lr == 1e-3
    assert cast.collapsing and runs[cast.collapsing].training.lr == 2e-3
    assert cast.second_seed and runs[cast.second_seed].training.seed == 1
    assert [runs[run_id].training.lr for run_id in cast.ablations] == [3e-3, 4e-3, 5e-3]
    assert [runs[run_id].training.scope for run_id in cast.no_warmup] == ["stream", "sequence"]


def test_roles_can_be_chosen(raw: dict[str, Any]) -> None:
    chosen = {"collapsing": {"lr": 5e-3}, "stable": {"lr": 3e-3}, "ablations": [{"lr": 6e-3}, {"lr": 1e-3}]}
    config = config_with(raw, LADDER, chosen)
    cast = roles(config)
    shown = [cast.collapsing, cast.stable, *cast.ablations]
    assert [config.runs[run_id].training.lr for run_id in shown if run_id] == [5e-3, 3e-3, 6e-3, 1e-3]
    assert cast.second_seed is None
