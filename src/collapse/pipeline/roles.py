"""Which run plays which part in the paper's figures: by the config's selectors, else by rule."""

from dataclasses import dataclass

from collapse.config.root import Config
from collapse.config.run import RunSpec


@dataclass(frozen=True)
class Roles:
    """Run ids by part; None or an empty tuple where no run of the grid plays it."""

    collapsing: str | None
    second_seed: str | None
    ablations: tuple[str, ...]
    stable: str | None
    no_warmup: tuple[str, ...]
    """Runs without warmup, one a scope (left panel of figure 6)."""


def _same_but_seed(a: RunSpec, b: RunSpec) -> bool:
    training = b.training.model_copy(update={"seed": a.training.seed})
    return a == b.model_copy(update={"training": training})


def roles(config: Config) -> Roles:
    """Who plays what.

    By rule, among the warmed-up Post-Norm runs on the stream, by learning rate and then seed: the lowest learning
    rate is the stable one, the next is the collapsing one, the same run with another seed repeats it, and the next
    higher learning rates, one run each, are the ablations. What a run then does is for the results to say.
    """
    runs = config.runs
    chosen = config.figures.roles
    candidates = sorted(
        (
            run_id
            for run_id, spec in runs.items()
            if spec.model.placement == "post" and spec.training.scope == "stream" and spec.training.warmup_steps > 0
        ),
        key=lambda run_id: (runs[run_id].training.lr, runs[run_id].training.seed),
    )
    first_of_lr: dict[float, str] = {}
    for run_id in candidates:
        first_of_lr.setdefault(runs[run_id].training.lr, run_id)
    ladder = list(first_of_lr.values())

    stable = config.matching(chosen.stable)[0] if chosen.stable else (ladder[0] if len(ladder) > 1 else None)
    collapsing = (
        config.matching(chosen.collapsing)[0]
        if chosen.collapsing
        else next((r for r in ladder if r != stable), ladder[0] if ladder else None)
    )
    second_seed: str | None
    if chosen.second_seed:
        second_seed = config.matching(chosen.second_seed)[0]
    else:
        second_seed = next(
            (r for r in candidates if r != collapsing and collapsing and _same_but_seed(runs[collapsing], runs[r])),
            None,
        )
    if chosen.ablations is not None:
        ablations = tuple(config.matching(selector)[0] for selector in chosen.ablations)
    else:
        floor = runs[collapsing].training.lr if collapsing else 0.0
        ablations = tuple(r for r in ladder if r != stable and runs[r].training.lr > floor)[:3]
    no_warmup: dict[str, str] = {}
    for run_id, spec in runs.items():
        if spec.model.placement == "post" and spec.training.warmup_steps == 0:
            no_warmup.setdefault(spec.training.scope, run_id)
    return Roles(collapsing, second_seed, ablations, stable, tuple(no_warmup.values()))
