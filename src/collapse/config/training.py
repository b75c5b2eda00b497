"""One training: its optimization, what it records, and how it is executed."""

from itertools import pairwise
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
    """Sequences an optimizer step, over all processes and accumulation steps."""
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
    """What is trained on: the `stream` of all text, or one `batch`, or one `sequence` of it over and over."""
    precision: Literal["auto", "fp32", "bf16"] = "auto"
    """Arithmetic: `auto` is fp32 on CPU and bf16 (with fp32 accumulation and master weights) on GPU."""
    time_limit: PositiveReal | None = Field(default=None, exclude=True)
    """Seconds that one start of a training may take: before they are over it saves a checkpoint and leaves, and the
    same command goes on. Null sets no limit. No part of a run's identity."""

    @property
    def sequences_per_step(self) -> int:
        """Sequences in one step: the batch, or 1 where the scope is a single sequence."""
        return 1 if self.scope == "sequence" else self.batch_size

    @property
    def decay_steps(self) -> int:
        """Step at which the cosine ends."""
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


class RecordConfig(Section):
    """What a run records, and at which steps: the first and the last one always."""

    every: PositiveInt = 1
    """Record every so many steps, from step 0 on; 1 records every step."""
    dense: list[tuple[NonNegativeInt, NonNegativeInt]] = Field(default_factory=list)
    """Windows [first, last] of steps, both included, in which every step is recorded whatever `every` says."""
    floor_every: PositiveInt = 10
    """Record the LM head's spectral norm, and with it the loss floor of Theorem 3.8 (i), every so many steps."""
    validation_sequences: NonNegativeInt = 64
    """Held-out sequences on which the final loss is measured, at most; 0 measures none."""

    def recorded(self, steps: int) -> list[int]:
        """The steps, ascending, that a run of so many steps records."""
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


class ExecutionConfig(Section):
    """How trainings are executed: no key here is part of a run's identity, and changing one reruns nothing."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` takes a GPU where there is one."""
    processes: PositiveInt = 1
    """Data-parallel processes a training, over all its nodes; on GPUs each gets its own. A run with fewer sequences a
    step takes as many as share them evenly, on no more than one node where it can."""
    nodes: PositiveInt = 1
    """Machines that a training's processes are spread over, as many on each; more than 1 only in a Slurm job."""
    threads: PositiveInt = 1
    """CPU threads a process."""
    micro_batch_size: PositiveInt
    """Sequences that a process handles at once; the rest of the batch is accumulated."""
    zero_stage: Literal[0, 1] = 1
    """ZeRO stage: 1 splits the optimizer's states among the processes, 0 keeps them whole on each."""
    activation_checkpointing: bool = False
    """Whether a layer's activations are computed again in the backward pass, not kept: less memory, more time."""
    compile: bool = False
    """Whether torch.compile compiles the two branches of a layer: faster steps, after half a minute at the first start.
    On a CPU it needs a C++ compiler."""
    flush_every: PositiveInt = 16
    """Steps between moving recorded quantities from the device to disk."""
    checkpoint_every: PositiveInt = 100
    """Steps between checkpoints."""
    log_seconds: PositiveReal = 5.0
    """Seconds between lines of progress."""

    @property
    def processes_per_node(self) -> int:
        """Processes of a training on one machine."""
        return self.processes // self.nodes

    @model_validator(mode="after")
    def _nodes_share_evenly(self) -> Self:
        if self.processes % self.nodes:
            raise ValueError(
                f"processes must be a multiple of nodes (got processes {self.processes}, nodes {self.nodes})"
            )
        return self

    def fitted(self, sequences: int) -> Self:
        """As it is for a step of so many sequences: where these are fewer than the processes, as many processes as
        share them evenly, on one node if that has places enough, and else evenly on all."""
        if sequences >= self.processes:
            return self
        processes = next(
            count
            for count in range(sequences, 0, -1)
            if sequences % count == 0 and (count <= self.processes_per_node or count % self.nodes == 0)
        )
        nodes = 1 if processes <= self.processes_per_node else self.nodes
        return self.model_copy(update={"processes": processes, "nodes": nodes})

    def split(self, sequences: int) -> tuple[int, int]:
        """(micro-batch size, accumulation steps) of a process for a step of so many sequences.

        Raises:
            ValueError: where the sequences do not divide evenly over processes and micro-batches.
        """
        if sequences < self.processes:
            raise ValueError(
                f"a step of {sequences} sequence(s) is too small for execution.processes = {self.processes}, each of "
                f"which needs one at least: set execution.processes to {sequences} or less"
            )
        if sequences % self.processes:
            raise ValueError(
                f"a step of {sequences} sequence(s) cannot be split evenly over execution.processes = {self.processes}"
            )
        local = sequences // self.processes
        micro = min(self.micro_batch_size, local)
        if local % micro:
            raise ValueError(
                f"the {local} sequences that a process has in a step cannot be split evenly into micro-batches of "
                f"execution.micro_batch_size = {micro}"
            )
        return micro, local // micro
