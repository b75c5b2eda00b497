"""What counts as collapsed, and where a transition begins."""

from typing import Annotated, Self

from pydantic import Field, model_validator

from collapse.config.base import PositiveInt, Real, Section

Similarity = Annotated[Real, Field(gt=0, lt=1)]


class AnalysisConfig(Section):
    """Thresholds of the transition detector and of the summary."""

    final_steps: PositiveInt = 20
    """Steps at the end of a run over which final values are averaged."""
    smoothing_steps: PositiveInt = 9
    """Width of the centred running median that removes batch noise from last-layer token similarity."""
    collapsed_tsim: Similarity = 0.99
    """A run counts as collapsed if last-layer token similarity stays above this over its final steps."""
    repaired_tsim: Similarity = 0.9
    """A collapse counts as repaired when last-layer token similarity falls below this again."""
    rise_fraction: Similarity = 0.1
    """The transition begins when last-layer token similarity exceeds its earlier level by this share of the rise."""

    @model_validator(mode="after")
    def _repaired_is_below_collapsed(self) -> Self:
        if self.repaired_tsim > self.collapsed_tsim:
            raise ValueError(
                f"repaired_tsim must not exceed collapsed_tsim (got {self.repaired_tsim} and {self.collapsed_tsim})"
            )
        return self
