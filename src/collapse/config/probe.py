"""Measurements at initialization: what they vary, and how many draws they take."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from collapse.config.base import Fraction, NonNegativeInt, PositiveInt, PositiveReal, Section
from collapse.config.corpus import CorpusConfig
from collapse.config.model import PlacementName

InputName = Literal["tokens", "gaussian"]
InputRms = Literal["unit", "as_trained"]
VarianceTarget = Literal["all", "value_output"]
Sweep = Literal["product", "axes"]


def _distinct(values: list[object]) -> list[object]:
    if len(set(values)) < len(values):
        raise ValueError("every value must occur only once")
    return values


Distinct = (Field(min_length=1), AfterValidator(_distinct))


class ProbeConfig(Section):
    """Probes at initialization (figures 1, 2, 8 and 9); they train nothing."""

    corpus: CorpusConfig | None = None
    """Text of the `tokens` inputs; null uses the top-level `corpus`."""
    window: NonNegativeInt = 0
    """Index, from 0, of the window of `model.sequence_length` training tokens that every seed reads."""
    inputs: Annotated[list[InputName], *Distinct] = Field(default=["tokens", "gaussian"])
    """`tokens`: text through the random embedding. `gaussian`: independent Gaussian rows."""
    input_rms: InputRms = "unit"
    """`unit` scales every row of the embedded input to RMS 1, as the theory assumes; `as_trained` leaves its scale.
    The choice matters under Pre-Norm, whose residual stream starts with this input."""
    placements: Annotated[list[PlacementName], *Distinct] = Field(default=["post", "pre"])
    """Placements of the norm to compare."""
    variance_scales: Annotated[list[Annotated[PositiveReal, Field(le=3000)]], *Distinct] = Field(
        default=[1.0, 2.0, 4.0]
    )
    """Factors on the standard variance 1/(3 fan_in) of sublayer matrices."""
    variance_target: VarianceTarget = "all"
    """Which sublayer matrices the factor multiplies: `all`, or the attention's value and output matrices only."""
    deescalations: Annotated[list[Fraction], *Distinct] = Field(default=[0.0, 0.25, 0.5, 0.75, 1.0])
    """Values of a: P - a C_n replaces P (Corollary 3.3)."""
    sweep: Sweep = "product"
    """`product` combines every variance factor with every a; `axes` varies one and keeps the other at its first."""
    seeds: PositiveInt = 8
    """Initializations over which the increments are measured: seeds 0, 1, ..."""
    initializations: PositiveInt = 32
    """Initializations over which E[P] and the second moments are averaged (figures 8 and 9): seeds 0, 1, ..."""
    seeds_per_job: PositiveInt = 8
    """Seeds per job. Fewer seeds per job let a probe use more machines. For the standard errors of figures 8 and 9, the
    jackknife leaves out the seeds of one job at a time."""


class MonteCarloConfig(Section):
    """Monte Carlo evaluation of the theory."""

    seed: NonNegativeInt = 0
    """Seed of all draws."""
    moment_draws: Annotated[PositiveInt, Field(ge=2)] = 1_000_000
    """Draws of (u, v) for each point of m(rho) (figure 7)."""
    weight_draws: Annotated[PositiveInt, Field(ge=2)] = 64
    """Draws of W for each layer of the approximation split."""
    networks: PositiveInt = 4
    """Initializations (seeds 0, 1, ...) whose layers provide the inputs of the approximation split."""
    layer_stride: PositiveInt = 5
    """Layers of the approximation split: layer 1, every multiple of this number, and the last layer."""
    widths: Annotated[list[Annotated[PositiveInt, Field(ge=8)]], *Distinct] = Field(default=[64, 128, 256, 512])
    """Widths at which the concentration of xi_1 and xi_2 is measured (Lemmas C.11 and C.12)."""
    width_draws: Annotated[PositiveInt, Field(ge=100)] = 2000
    """Draws of W at each width."""


def settings(scales: list[float], deescalations: list[float], sweep: Sweep) -> list[tuple[float, float]]:
    """Every setting that a sweep measures, as (variance scale, deescalation)."""
    return [
        (scale, a)
        for scale in scales
        for a in deescalations
        if sweep == "product" or scale == scales[0] or a == deescalations[0]
    ]
