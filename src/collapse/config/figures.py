"""How figures look, and which run plays which role in them."""

from typing import Annotated, Literal

from pydantic import Field

from collapse.config.base import NonNegativeReal, PositiveInt, PositiveReal, Section
from collapse.config.grid import GridRun

Palette = Literal["viridis", "magma", "plasma", "inferno", "cividis", "rocket", "mako", "crest", "flare"]
"""Continuous palettes of matplotlib and seaborn; listed here so that parsing a config imports neither."""


class RolesConfig(Section):
    """Which runs the paper's figures show. If a role is left out, a rule chooses its run (see the top of this page)."""

    collapsing: GridRun | None = None
    """The collapsing run of figures 3-5. Rule: second lowest learning rate of the Post-Norm runs with warmup."""
    second_seed: GridRun | None = None
    """The collapsing run repeated with another seed, figures 10-11. Rule: the same run with the next seed."""
    ablations: Annotated[list[GridRun], Field(max_length=3)] | None = None
    """Runs with up to three more learning rates, figures 12-20. Rule: the next higher ones."""
    stable: GridRun | None = None
    """The run that does not collapse, figures 21-22. Rule: the lowest learning rate."""


class FiguresConfig(Section):
    """Style and contents of the figures; changing a key here only redraws figures."""

    context: Literal["paper", "notebook", "talk"] = "paper"
    """Seaborn's scaling context."""
    palette: Palette = "viridis"
    """Palette of ordered curves (layers, steps, learning rates) and of maps; every choice is perceptually uniform."""
    font_scale: PositiveReal = 1.0
    """Multiplies every font size."""
    dpi: PositiveInt = 160
    """Resolution of the PNG files, pixels per inch."""
    layer_stride: PositiveInt = 5
    """Layers to show: layer 1, every multiple of this number, and the last layer."""
    mask_gradient_below: NonNegativeReal = 1e-10
    """Plots mask alpha and c if either gradient norm is below this (Appendix F.4); stored values are never masked."""
    window: PositiveInt = 40
    """Steps to show on each side of the transition in figures 4, 11, 13, 16, 19."""
    roles: RolesConfig = Field(default_factory=RolesConfig)
    """Which run plays which role."""
