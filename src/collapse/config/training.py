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


class ExecutionConfig(Section):
    """How trainings are executed. No key here is part of a run's identity, and changing one reruns nothing."""

    device: Literal["auto", "cpu", "cuda"] = "auto"
    """`auto` uses a GPU if there is one."""
    processes: PositiveInt = 1
    """Data-parallel processes per training, over all its nodes; on GPUs each process has its own. A run with fewer
    sequences per step uses as many processes as share them evenly, on a single node if they fit there."""
    nodes: PositiveInt = 1
    """Machines that share a training's processes evenly; more than 1 needs a Slurm job."""
    threads: PositiveInt = 1
    """CPU threads per process."""
    micro_batch_size: PositiveInt
    """Sequences that a process handles at once; gradients of the rest of its share are accumulated."""
    activation_checkpointing: bool = False
    """Whether the backward pass recomputes a layer's activations instead of keeping them: less memory, more time."""
    flush_every: PositiveInt = 16
    """Steps between two transfers of recorded quantities from the device to disk."""
    checkpoint_every: PositiveInt = 100
    """Steps between checkpoints."""
    time_limit: PositiveReal | None = None
    """Seconds that one start of a training may take. Before they are over it saves a checkpoint and stops; the same
    command resumes from it. Null sets no limit."""
    log_seconds: PositiveReal = 5.0
    """Seconds between lines of progress."""

    @property
    def processes_per_node(self) -> int:
        """Processes of a training on each node."""
        return self.processes // self.nodes

    @model_validator(mode="after")
    def _nodes_share_evenly(self) -> Self:
        if self.processes % self.nodes:
            raise ValueError(
                f"processes must be a multiple of nodes (got processes {self.processes}, nodes {self.nodes})"
            )
        return self

    def fitted(self, sequences: int) -> Self:
        """The execution of a run with `sequences` sequences per step.

        If there are fewer sequences than processes, it uses the largest number of processes that share them evenly: on
        one node if they fit there, else evenly on all nodes.
        """
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
        """(micro-batch size, accumulation steps) of each process for a step of `sequences` sequences.

        Raises:
            ValueError: if the sequences do not divide evenly over processes and micro-batches.
        """
        if sequences < self.processes:
            raise ValueError(
                f"a step of {sequences} sequence(s) is too small for execution.processes = {self.processes}: each "
                f"process needs at least one; set execution.processes to {sequences} or less"
            )
        if sequences % self.processes:
            raise ValueError(
                f"a step of {sequences} sequence(s) cannot be split evenly over execution.processes = {self.processes}"
            )
        local = sequences // self.processes
        micro = min(self.micro_batch_size, local)
        if local % micro:
            raise ValueError(
                f"the {local} sequences per process and step cannot be split evenly into micro-batches of "
                f"execution.micro_batch_size = {micro}"
            )
        return micro, local // micro
