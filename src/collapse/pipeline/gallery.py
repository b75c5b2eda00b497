"""Which figures a config has, and which runs or which dataset each of them shows."""

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from collapse.config.root import Config
from collapse.pipeline.roles import roles


@dataclass(frozen=True)
class Figure:
    """One figure: its file, what draws it, and the runs or the dataset it is drawn from."""

    name: str
    """File name without its extension; `figNN_` as in the paper, no number for further figures."""
    family: str
    """Module under `collapse.figures` that draws it."""
    runs: dict[str, tuple[str, ...]] = field(default_factory=dict)
    """Run ids by the option of the family's command that takes them."""
    number: int | None = None
    """Number in the paper."""
    data: str | None = None
    """Dataset of probes or theory that it is drawn from, relative to the results folder, without its extension."""

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Every run shown, each once."""
        return tuple(dict.fromkeys(run_id for run_ids in self.runs.values() for run_id in run_ids))


def _at_initialization() -> Iterator[Figure]:
    """Figures that need no run: every config has them."""
    for number, family, data in (
        (1, "increments", "probes/increments"),
        (2, "deescalation", "probes/increments"),
        (7, "swiglu_moment", "theory/swiglu_moment"),
        (8, "attention_moment", "probes/attention"),
        (9, "prefix_average", "probes/attention"),
        (None, "approximation_split", "probes/approximations"),
        (None, "depth_recursion", "probes/increments"),
        (None, "row_norms", "probes/increments"),
        (None, "concentration", "theory/concentration"),
    ):
        yield Figure(family if number is None else f"fig{number:02d}_{family}", family, number=number, data=data)


def _series(run_id: str | None, first: int, part: str, families: tuple[str, ...]) -> Iterator[Figure]:
    """Consecutive figures of one run."""
    if run_id is None:
        return
    for number, family in enumerate(families, start=first):
        name = f"fig{number:02d}_{part}{family}"
        yield Figure(name, family, {"run": (run_id,)}, number)


def _of_runs(config: Config) -> Iterator[Figure]:
    part = roles(config)
    two = ("gradient_contribution", "contraction")
    three = (*two, "gradient_norms")
    if part.collapsing is not None:
        yield Figure("overview", "overview", {"runs": tuple(config.runs), "collapsing": (part.collapsing,)})
        yield Figure("fig03_sublayer_gradient_contribution", two[0], {"run": (part.collapsing,)}, 3)
        yield from _series(part.collapsing, 4, "", three[1:])
    warmup = part.ablations or tuple(filter(None, [part.collapsing]))
    losses = {"no-warmup": part.no_warmup, "warmup": warmup}
    if any(losses.values()):
        shown = {option: run_ids for option, run_ids in losses.items() if run_ids}
        yield Figure("fig06_frequency_loss", "frequency_loss", shown, 6)
    yield from _series(part.second_seed, 10, "second_seed_", two)
    for index, run_id in enumerate(part.ablations):
        yield from _series(run_id, 12 + 3 * index, f"lr{index + 1}_", three)
    yield from _series(part.stable, 21, "stable_", two)
    for run_id in config.runs:
        yield Figure(f"tsim_heatmap_{run_id}", "tsim_heatmap", {"run": (run_id,)})


def figures(config: Config) -> dict[str, Figure]:
    """Every figure of a config by its name, in the order of the report: by number, then those without.

    Figures of runs that no run can fill are left out.
    """
    drawn = [*_at_initialization(), *_of_runs(config)]
    drawn.sort(key=lambda figure: math.inf if figure.number is None else figure.number)
    return {figure.name: figure for figure in drawn}
