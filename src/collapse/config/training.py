"""The optimization of a training."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from collapse.config.base import Fraction, NonNegativeInt, NonNegativeReal, PositiveInt, PositiveReal, Real, Section

Scope = Literal["stream", "batch", "sequence"]


class TrainingConfig(Section):
    """Everything about the optimization that changes the numbers."""

    steps: PositiveInt
    """Optimizer steps to run."""
    horizon: PositiveInt | None = None
    """Step at which the cosine reaches its end; may exceed `steps`; null means `steps`."""
    warmup_steps: NonNegativeInt
    """Steps over which the learning rate rises linearly to its peak; 0 starts at the peak."""
    lr: PositiveReal
    """Peak learning rate."""
    final_lr_fraction: Fraction = 0.0
    """Learning rate at the horizon, as a share of the peak."""
    batch_size: PositiveInt
    """Sequences per optimizer step, over all processes and accumulation steps."""
    betas: tuple[
        Annotated[Real, Field(ge=0, lt=1)],
        Annotated[Real, Field(ge=0, lt=1)],
    ] = (0.9, 0.95)
    """AdamW's decay rates."""
    weight_decay: NonNegativeReal = 0.1
    """AdamW's decoupled weight decay; applied to matrices, not to RMSNorm gains."""
    clip: PositiveReal = 1.0
    """Global gradient norm above which gradients are scaled down."""
    seed: NonNegativeInt = 0
    """Seed of the initialization and of the order of the data."""
    scope: Scope = "stream"
    """What the run trains on: the `stream` of all text, or one `batch` or `sequence` of it, repeated at every step."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic: `auto` is fp32 on CPU and bf16 (with fp32 accumulation and master weights) on GPU."""

    @property
    def sequences_per_step(self) -> int:
        """Sequences per step: the batch size, or 1 if the scope is a single sequence."""
        return 1 if self.scope == "sequence" else self.batch_size

    @property
    def decay_steps(self) -> int:
        """Step at which the cosine reaches its end."""
        return self.horizon if self.horizon is not None else self.steps

    @model_validator(mode="after")
    def _schedule_is_possible(self) -> Self:
        if self.decay_steps < self.steps:
            raise ValueError(f"horizon must be at least steps (got horizon {self.decay_steps}, steps {self.steps})")
        if self.warmup_steps >= self.decay_steps:
            raise ValueError(
                f"warmup_steps must be below the horizon (got warmup_steps {self.warmup_steps}, "
                f"horizon {self.decay_steps})"
            )
        return self
