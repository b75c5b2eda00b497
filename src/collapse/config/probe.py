"""Measurements at initialization: what is varied, how often it is drawn, and the specs of the stages that measure."""

from typing import Annotated, Literal

from pydantic import AfterValidator, Field

from collapse.config.base import Fraction, NonNegativeInt, PositiveInt, PositiveReal, Section
from collapse.config.corpus import CorpusConfig
from collapse.config.model import ModelConfig, PlacementName
from collapse.config.run import DataSpec

InputName = Literal["tokens", "gaussian"]
InputRms = Literal["unit", "as_trained"]
VarianceTarget = Literal["all", "value_output"]
Sweep = Literal["product", "axes"]


def _distinct(values: list[object]) -> list[object]:
    if len(set(values)) < len(values):
        raise ValueError("every value must occur once")
    return values


Distinct = (Field(min_length=1), AfterValidator(_distinct))


class ProbeConfig(Section):
    """Probes at initialization (figures 1, 2, 8 and 9); nothing is trained for them."""

    corpus: CorpusConfig | None = None
    """Text of the `tokens` inputs; null takes the config's own corpus."""
    window: NonNegativeInt = 0
    """Which window of `model.sequence_length` training tokens is read, counted from 0; all seeds read the same."""
    inputs: Annotated[list[InputName], *Distinct] = Field(default=["tokens", "gaussian"])
    """`tokens`: text through the random embedding. `gaussian`: independent Gaussian rows."""
    input_rms: InputRms = "unit"
    """`unit` scales every row of the embedded input to RMS 1, as the theory assumes; `as_trained` leaves it. It matters
    under Pre-Norm, whose residual stream starts with it."""
    placements: Annotated[list[PlacementName], *Distinct] = Field(default=["post", "pre"])
    """Placements of the norm that are compared."""
    variance_scales: Annotated[list[Annotated[PositiveReal, Field(le=3000)]], *Distinct] = Field(
        default=[1.0, 2.0, 4.0]
    )
    """Factors on the standard variance 1/(3 fan_in) of sublayer matrices."""
    variance_target: VarianceTarget = "all"
    """Which sublayer matrices the factor multiplies: `all`, or the attention's value and output matrices only."""
    deescalations: Annotated[list[Fraction], *Distinct] = Field(default=[0.0, 0.25, 0.5, 0.75, 1.0])
    """Values of a where P - a C_n takes the place of P (Corollary 3.3)."""
    sweep: Sweep = "product"
    """`product` combines every variance factor with every a; `axes` varies one at a time, the other at its first."""
    seeds: PositiveInt = 8
    """Initializations over which the increments are measured: seeds 0, 1, ..."""
    initializations: PositiveInt = 32
    """Initializations over which E[P] and the second moments are averaged (figures 8 and 9): seeds 0, 1, ..."""
    seeds_per_job: PositiveInt = 8
    """Seeds that one job takes: fewer spread a probe over more machines. The standard errors of figures 8 and 9 come
    from leaving out one job's seeds at a time."""


class MonteCarloConfig(Section):
    """Monte Carlo evaluation of the theory."""

    seed: NonNegativeInt = 0
    """Seed of all draws."""
    moment_draws: Annotated[PositiveInt, Field(ge=2)] = 1_000_000
    """Draws of (u, v) for each point of m(rho) (figure 7)."""
    weight_draws: Annotated[PositiveInt, Field(ge=2)] = 64
    """Draws of W for each layer of the approximation split."""
    networks: PositiveInt = 4
    """Initializations, seeds 0, 1, ..., whose layers the approximation split takes its inputs from."""
    layer_stride: PositiveInt = 5
    """Layers of the approximation split: 1, then every multiple of this, then the last."""
    widths: Annotated[list[Annotated[PositiveInt, Field(ge=8)]], *Distinct] = Field(default=[64, 128, 256, 512])
    """Widths at which the concentration of xi_1 and xi_2 is measured (Lemmas C.11 and C.12)."""
    width_draws: Annotated[PositiveInt, Field(ge=100)] = 2000
    """Draws of W at each width."""


class StackSpec(Section):
    """A stack of layers at initialization, and what goes into it."""

    data: DataSpec
    model: ModelConfig
    window: NonNegativeInt
    input_rms: InputRms

    @property
    def _matrices(self) -> int:
        """Entries of one layer's matrices."""
        return self.model.width * (4 * self.model.width + 3 * self.model.ffn_width)

    @property
    def _state(self) -> int:
        """Entries of one (n, d) matrix."""
        return self.model.sequence_length * self.model.width

    @property
    def _embedding(self) -> int:
        return self.model.vocab_size * self.model.width


class IncrementsSpec(StackSpec):
    """What the increments of a seed depend on."""

    inputs: list[InputName]
    placements: list[PlacementName]
    variance_scales: list[float]
    variance_target: VarianceTarget
    deescalations: list[float]
    sweep: Sweep

    @property
    def settings(self) -> list[tuple[float, float]]:
        """(variance scale, deescalation) of every setting that is measured."""
        first_scale, first_a = self.variance_scales[0], self.deescalations[0]
        return [
            (scale, a)
            for scale in self.variance_scales
            for a in self.deescalations
            if self.sweep == "product" or scale == first_scale or a == first_a
        ]

    @property
    def memory_bytes(self) -> int:
        """About the memory that the probe needs: states of all settings, one layer's matrices, one chunk's work."""
        sequences = len(self.settings) * len(self.inputs) * len(self.placements)
        chunk = max(CHUNK_TOKENS, self.model.sequence_length)
        work = chunk * (8 * self.model.width + 4 * self.model.ffn_width)
        matrices = (1 + len(self.variance_scales)) * self._matrices
        return BASE_BYTES + 4 * (2 * sequences * self._state + matrices + self._embedding + work)


class AttentionSpec(StackSpec):
    """What the averages of attention matrices depend on, seeds apart."""

    def memory_bytes(self, seeds: int) -> int:
        """About the memory that the probe needs: one layer's sums, some rows of one initialization's attention."""
        n, heads = self.model.sequence_length, self.model.heads
        work = self.model.sequence_length * (8 * self.model.width + 4 * self.model.ffn_width)
        squares = (6 * n + 3 * heads * BLOCK_ROWS) * n + heads * self._state
        return BASE_BYTES + 4 * (squares + 4 * seeds * self._state + 2 * self._matrices + self._embedding + work)


class ApproximationsSpec(StackSpec):
    """What the approximation split depends on."""

    placements: list[PlacementName]
    variance_scales: list[float]
    variance_target: VarianceTarget
    seed: NonNegativeInt
    weight_draws: PositiveInt
    networks: PositiveInt
    layer_stride: PositiveInt

    @property
    def memory_bytes(self) -> int:
        """About the memory that the probe needs: one layer's attention matrices and states."""
        n, heads = self.model.sequence_length, self.model.heads
        states = 2 * len(self.placements) * len(self.variance_scales) + 8 + 2 * heads
        work = self.model.sequence_length * 4 * self.model.ffn_width
        matrices = (2 + len(self.variance_scales)) * self._matrices
        return BASE_BYTES + 4 * (3 * heads * n * n + states * self._state + matrices + self._embedding + work)


class MomentSpec(Section):
    """What the moments m(rho) depend on."""

    preact_variances: list[float]
    seed: NonNegativeInt
    draws: PositiveInt


class ConcentrationSpec(Section):
    """What the concentration at growing width depends on."""

    widths: list[int]
    seed: NonNegativeInt
    draws: PositiveInt


class CollapsedSpec(Section):
    """What the checks on constructed collapsed states depend on."""

    seed: NonNegativeInt


BASE_BYTES = 550_000_000
"""Of a process that has imported torch."""
CHUNK_TOKENS = 8192
"""Tokens that a probe sends through a layer at once, at most, unless a single sequence is longer."""

BLOCK_ROWS = 256
"""Rows of a causal attention matrix that are computed at once where no matrix is held whole."""


def stack_of(model: ModelConfig) -> ModelConfig:
    """A model as the probes see it: no epsilon, and nothing that they do not depend on."""
    unused = {"placement": "post", "tie_embeddings": True, "head_std": 0.02}
    return model.model_copy(update=unused | {"norm_eps": 0.0})


def slices(seeds: int, per_job: int) -> list[tuple[int, int]]:
    """Half-open ranges of seeds, one a job."""
    return [(first, min(first + per_job, seeds)) for first in range(0, seeds, per_job)]
