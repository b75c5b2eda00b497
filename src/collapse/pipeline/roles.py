"""Roles: which run plays which role in the figures of the paper, chosen in the config or by a rule."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from collapse.config.grid import GridRun
from collapse.config.root import Config
from collapse.config.run import RunSpec


@dataclass(frozen=True)
class Roles:
    """Run ids by role; None or an empty tuple if no run of the grid plays the role."""

    collapsing: str | None
    second_seed: str | None
    ablations: tuple[str, ...]
    """At most three."""
    stable: str | None
    no_warmup: tuple[str, ...]
    """Post-Norm runs without warmup, one per scope."""


def roles(config: Config) -> Roles:
    """Which run plays which role.

    For roles that the config leaves out, a rule chooses among the Post-Norm runs with warmup on the stream, one per
    learning rate: the run with the lowest learning rate is `stable`, the next one is `collapsing`, and up to three runs
    with higher learning rates are the `ablations`. `second_seed` differs from `collapsing` only in its seed. A role
    does not predict the result of a run.
    """
    runs, chosen = config.runs, config.figures.roles
    warmed_up = [
        run_id
        for run_id, spec in runs.items()
        if spec.model.placement == "post" and spec.training.scope == "stream" and spec.training.warmup_steps > 0
    ]
    warmed_up.sort(key=lambda run_id: (runs[run_id].training.lr, runs[run_id].training.seed))
    ladder = _first_of_each(warmed_up, lambda run_id: runs[run_id].training.lr)
    no_warmup = [
        run_id for run_id, spec in runs.items() if spec.model.placement == "post" and spec.training.warmup_steps == 0
    ]

    def chosen_or(selector: GridRun | None, found: Iterable[str]) -> str | None:
        return config.matching(selector)[0] if selector else next(iter(found), None)

    stable = chosen_or(chosen.stable, ladder[:1] if len(ladder) > 1 else [])
    others = [run_id for run_id in ladder if run_id != stable]
    collapsing = chosen_or(chosen.collapsing, others or ladder)
    repeated = [] if collapsing is None else _differing_in_seed(runs, collapsing, warmed_up)
    second_seed = chosen_or(chosen.second_seed, repeated)
    if chosen.ablations is not None:
        ablations = [config.matching(selector)[0] for selector in chosen.ablations]
    else:
        above = runs[collapsing].training.lr if collapsing else 0.0
        ablations = [run_id for run_id in others if runs[run_id].training.lr > above][:3]
    one_per_scope = _first_of_each(no_warmup, lambda run_id: runs[run_id].training.scope)
    return Roles(collapsing, second_seed, tuple(ablations), stable, tuple(one_per_scope))


def _first_of_each(run_ids: Iterable[str], key: Callable[[str], object]) -> list[str]:
    """The first run of each value of the key, in order."""
    first: dict[object, str] = {}
    for run_id in run_ids:
        first.setdefault(key(run_id), run_id)
    return list(first.values())


def _differing_in_seed(runs: Mapping[str, RunSpec], run_id: str, among: Iterable[str]) -> list[str]:
    """The runs that differ from a run only in the training seed."""
    spec = runs[run_id]

    def with_its_seed(other: RunSpec) -> RunSpec:
        training = other.training.model_copy(update={"seed": spec.training.seed})
        return other.model_copy(update={"training": training})

    return [other for other in among if other != run_id and with_its_seed(runs[other]) == spec]
