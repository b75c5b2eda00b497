"""The gallery: the figures of a config, and the runs or the dataset that each of them shows."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from collapse.config.root import Config
from collapse.pipeline.roles import roles


@dataclass(frozen=True)
class Row:
    """A row of the gallery."""

    family: str
    """Module in `collapse.figures` that draws it."""
    number: int | None
    """Number in the paper; None for a figure that the paper does not have."""
    shows: Mapping[str, str]
    """For each input of the family's `draw`: a dataset, relative to the results folder, or a role (`_cast`)."""
    slug: str | None = None
    """File name after the number; None means the name of the family."""


GALLERY = (
    Row("increments", 1, {"data": "probes/increments"}),
    Row("deescalation", 2, {"data": "probes/increments"}),
    Row("gradient_contribution", 3, {"run": "collapsing"}, "sublayer_gradient_contribution"),
    Row("contraction", 4, {"run": "collapsing"}),
    Row("gradient_norms", 5, {"run": "collapsing"}),
    Row("frequency_loss", 6, {"no_warmup": "no warmup", "warmup": "several learning rates"}),
    Row("swiglu_moment", 7, {"data": "theory/swiglu_moment"}),
    Row("attention_moment", 8, {"data": "probes/attention"}),
    Row("prefix_average", 9, {"data": "probes/attention"}),
    Row("gradient_contribution", 10, {"run": "second seed"}, "second_seed_gradient_contribution"),
    Row("contraction", 11, {"run": "second seed"}, "second_seed_contraction"),
    Row("gradient_contribution", 12, {"run": "ablation 1"}, "lr1_gradient_contribution"),
    Row("contraction", 13, {"run": "ablation 1"}, "lr1_contraction"),
    Row("gradient_norms", 14, {"run": "ablation 1"}, "lr1_gradient_norms"),
    Row("gradient_contribution", 15, {"run": "ablation 2"}, "lr2_gradient_contribution"),
    Row("contraction", 16, {"run": "ablation 2"}, "lr2_contraction"),
    Row("gradient_norms", 17, {"run": "ablation 2"}, "lr2_gradient_norms"),
    Row("gradient_contribution", 18, {"run": "ablation 3"}, "lr3_gradient_contribution"),
    Row("contraction", 19, {"run": "ablation 3"}, "lr3_contraction"),
    Row("gradient_norms", 20, {"run": "ablation 3"}, "lr3_gradient_norms"),
    Row("gradient_contribution", 21, {"run": "stable"}, "stable_gradient_contribution"),
    Row("contraction", 22, {"run": "stable"}, "stable_contraction"),
    Row("approximation_split", None, {"data": "probes/approximations"}),
    Row("depth_recursion", None, {"data": "probes/increments"}),
    Row("row_norms", None, {"data": "probes/increments"}),
    Row("concentration", None, {"data": "theory/concentration"}),
    Row("overview", None, {"runs": "all runs", "collapsing": "collapsing"}),
    Row("tsim_heatmap", None, {"run": "every run"}),
)
"""All figures, in the order of the report: one figure shows `all runs`; `every run` gets a separate figure."""


@dataclass(frozen=True)
class Figure:
    """One figure of a config: its file, its family, and its inputs."""

    name: str
    """File name without its extension; `figNN_...` for figure NN of the paper."""
    family: str
    """Module in `collapse.figures` that draws it."""
    number: int | None
    """Number in the paper."""
    inputs: Mapping[str, str | tuple[str, ...]]
    """For each input of the family's `draw`: a dataset (path in the results folder, no extension), or run ids."""

    @property
    def runs(self) -> dict[str, tuple[str, ...]]:
        """The inputs that are runs."""
        return {name: shown for name, shown in self.inputs.items() if not isinstance(shown, str)}

    @property
    def run_ids(self) -> tuple[str, ...]:
        """Every run that the figure shows, without duplicates."""
        return tuple(dict.fromkeys(run_id for run_ids in self.runs.values() for run_id in run_ids))

    @property
    def data(self) -> str | None:
        """The input that is a dataset; None if the figure shows runs."""
        return next((shown for shown in self.inputs.values() if isinstance(shown, str)), None)

    @property
    def at_initialization(self) -> bool:
        """Whether the figure shows a dataset, which needs no training."""
        return self.data is not None


def figures(config: Config) -> dict[str, Figure]:
    """Every figure of a config by its name, in gallery order; omits figures of roles that no run plays."""
    cast = _cast(config)
    drawn = [figure for row in GALLERY for figure in _expand(row, cast, tuple(config.runs))]
    return {figure.name: figure for figure in drawn}


def _cast(config: Config) -> dict[str, tuple[str, ...]]:
    """Run ids by role; gallery rows without a role show a dataset."""
    part = roles(config)
    collapsing, second_seed, stable = (
        () if run_id is None else (run_id,) for run_id in (part.collapsing, part.second_seed, part.stable)
    )
    return {
        "collapsing": collapsing,
        "second seed": second_seed,
        "ablation 1": part.ablations[0:1],
        "ablation 2": part.ablations[1:2],
        "ablation 3": part.ablations[2:3],
        "several learning rates": part.ablations or collapsing,
        "stable": stable,
        "no warmup": part.no_warmup,
    }


def _expand(row: Row, cast: Mapping[str, tuple[str, ...]], all_runs: tuple[str, ...]) -> Iterator[Figure]:
    slug = row.slug or row.family
    name = slug if row.number is None else f"fig{row.number:02d}_{slug}"
    if "every run" in row.shows.values():
        for run_id in all_runs:
            yield Figure(f"{name}_{run_id}", row.family, row.number, dict.fromkeys(row.shows, (run_id,)))
        return
    played = [cast[shown] for shown in row.shows.values() if shown in cast]
    if any(played) or not played:
        who = {**cast, "all runs": all_runs}
        inputs = {option: who.get(shown, shown) for option, shown in row.shows.items()}
        yield Figure(name, row.family, row.number, {option: shown for option, shown in inputs.items() if shown})
