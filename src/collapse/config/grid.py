"""The runs of a config: all combinations of the axes, plus single extra runs."""

from collections.abc import Iterator
from itertools import product
from typing import Annotated, Any

from pydantic import Field

from collapse.config.base import NonNegativeInt, PositiveInt, PositiveReal, Section
from collapse.config.model import PlacementName
from collapse.config.training import Scope


class GridRun(Section):
    """Values of one run that override `model` and `training`; a key that is left out keeps the value from there."""

    placement: PlacementName | None = None
    """Overrides `model.placement`."""
    lr: PositiveReal | None = None
    """Overrides `training.lr`."""
    warmup_steps: NonNegativeInt | None = None
    """Overrides `training.warmup_steps`."""
    seed: NonNegativeInt | None = None
    """Overrides `training.seed`."""
    scope: Scope | None = None
    """Overrides `training.scope`."""
    steps: PositiveInt | None = None
    """Overrides `training.steps`."""

    def values(self) -> dict[str, Any]:
        """The keys that were given, and their values."""
        return self.model_dump(exclude_none=True)


class GridAxes(Section):
    """Lists of values, one run per combination. An axis that is left out keeps the value from `model` or `training`."""

    placement: Annotated[list[PlacementName], Field(min_length=1)] | None = None
    """Values for `model.placement`."""
    lr: Annotated[list[PositiveReal], Field(min_length=1)] | None = None
    """Values for `training.lr`."""
    warmup_steps: Annotated[list[NonNegativeInt], Field(min_length=1)] | None = None
    """Values for `training.warmup_steps`."""
    seed: Annotated[list[NonNegativeInt], Field(min_length=1)] | None = None
    """Values for `training.seed`."""
    scope: Annotated[list[Scope], Field(min_length=1)] | None = None
    """Values for `training.scope`."""
    steps: Annotated[list[PositiveInt], Field(min_length=1)] | None = None
    """Values for `training.steps`."""


class GridConfig(Section):
    """The runs of a config."""

    product: GridAxes | None = None
    """Axes; each combination of their values is a run."""
    extra: list[GridRun] = Field(default_factory=list)
    """Further runs, one per entry."""

    def overrides(self) -> Iterator[tuple[str, GridRun]]:
        """(config key for messages, override) of every run, including duplicates, in the order of the file."""
        if self.product is not None:
            axes = self.product.model_dump(exclude_none=True)
            for values in product(*axes.values()):
                yield "grid.product", GridRun(**dict(zip(axes, values, strict=True)))
        for index, run in enumerate(self.extra):
            yield f"grid.extra[{index}]", run
