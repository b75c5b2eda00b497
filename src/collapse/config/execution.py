"""How trainings are executed."""

from typing import Literal, Self

from pydantic import model_validator

from collapse.config.base import PositiveInt, PositiveReal, Section


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
    """Seconds between a training's lines of progress."""

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
