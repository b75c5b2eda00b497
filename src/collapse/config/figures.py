"""How figures look, and which run plays which part in them."""

from typing import Annotated, Literal

from pydantic import Field

from collapse.config.base import NonNegativeReal, PositiveInt, PositiveReal, Section
from collapse.config.grid import GridRun

Palette = Literal["viridis", "magma", "plasma", "inferno", "cividis", "rocket", "mako", "crest", "flare"]
"""Continuous palettes of matplotlib and seaborn; named here because parsing a config imports neither."""


class RolesConfig(Section):
    """Which runs the paper's figures show; a role left out is filled by rule from the grid (config/README.md)."""

    collapsing: GridRun | None = None
    """The collapsing run of figures 3-5. By rule: the second lowest learning rate of the warmed-up Post-Norm runs."""
    second_seed: GridRun | None = None
    """Its repetition with another seed, figures 10-11. By rule: the same run with the next seed."""
    ablations: Annotated[list[GridRun], Field(max_length=3)] | None = None
    """Up to three more learning rates, figures 12-20. By rule: the next higher ones."""
    stable: GridRun | None = None
    """The run that does not collapse, figures 21-22. By rule: the lowest learning rate."""


class FiguresConfig(Section):
    """Style and contents of the figures; changing a key here redraws figures and nothing else."""

    context: Literal["paper", "notebook", "talk"] = "paper"
    """Seaborn's scaling context."""
    palette: Palette = "viridis"
    """Colours of ordered curves (layers, steps, learning rates) and maps, all of them perceptually uniform."""
    font_scale: PositiveReal = 1.0
    """Multiplies every font size."""
    dpi: PositiveInt = 160
    """Resolution of the PNG files, pixels per inch."""
    layer_stride: PositiveInt = 5
    """Layers shown: 1, then every multiple of this, then the last."""
    mask_gradient_below: NonNegativeReal = 1e-10
    """Plots mask alpha and c where either gradient norm is below this (Appendix F.4); stored data are never masked."""
    window: PositiveInt = 40
    """Steps shown on either side of the transition in figures 4, 11, 13, 16, 19."""
    roles: RolesConfig = Field(default_factory=RolesConfig)
    """Which run plays which part."""
