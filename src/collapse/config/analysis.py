"""What counts as collapsed, and where a transition begins."""

from typing import Annotated

from pydantic import Field

from collapse.config.base import PositiveInt, Real, Section

Similarity = Annotated[Real, Field(gt=0, lt=1)]


class AnalysisConfig(Section):
    """Thresholds of the transition detector and of the summary."""

    final_steps: PositiveInt = 20
    """Steps at the end of a run over which final values are averaged."""
    collapsed_tsim: Similarity = 0.99
    """A run counts as collapsed if its last-layer token similarity ends, and stays, above this."""
    rise_fraction: Similarity = 0.1
    """The transition begins where last-layer token similarity leaves its earlier level by this share of the rise."""
