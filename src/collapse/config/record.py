"""What a run records, and at which steps."""

from itertools import pairwise
from typing import Self

from pydantic import Field, model_validator

from collapse.config.base import NonNegativeInt, PositiveInt, Section


class RecordConfig(Section):
    """What a run records, and at which steps. The first and the last step are always recorded."""

    every: PositiveInt = 1
    """Steps between two records, from step 0 on; 1 records every step."""
    dense: list[tuple[NonNegativeInt, NonNegativeInt]] = Field(default_factory=list)
    """Windows [first, last] of steps, both included, in which every step is recorded, whatever `every` is."""
    floor_every: PositiveInt = 10
    """Steps between two records of the LM head's spectral norm and, with it, the loss floor of Theorem 3.8 (i)."""
    validation_sequences: NonNegativeInt = 64
    """Largest number of held-out sequences on which the final loss is measured; 0 skips the measurement."""

    def recorded(self, steps: int) -> list[int]:
        """The steps that a run of `steps` steps records, ascending."""
        windows = (step for first, last in self.dense for step in range(first, last + 1))
        return sorted({*range(0, steps, self.every), *windows, steps - 1})

    @model_validator(mode="after")
    def _windows_follow_each_other(self) -> Self:
        for first, last in self.dense:
            if last < first:
                raise ValueError(f"dense: a window must not end before it starts (got [{first}, {last}])")
        for before, after in pairwise(self.dense):
            if after[0] <= before[1]:
                raise ValueError(
                    f"dense: windows must be in ascending order and must not overlap (got {list(before)}, then "
                    f"{list(after)})"
                )
        return self
