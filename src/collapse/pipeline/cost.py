"""Parameters, floating-point operations, memory and disk of jobs, from the config alone.

Shapes as in SPEC section 1: B sequences of n tokens, width d, L layers, H heads, SwiGLU width d_ff, vocabulary v.
"""

from dataclasses import dataclass
from typing import Literal

from collapse.config.model import ModelConfig
from collapse.config.probe import settings
from collapse.config.root import Config
from collapse.config.run import RunSpec
from collapse.config.training import ExecutionConfig
from collapse.pipeline.sizes import BLOCK_ROWS, CHUNK_TOKENS

Precision = Literal["fp32", "bf16"]

FP64 = 8
FP32 = 4
BF16 = 2
REDUCTION_BUCKET = 500_000_000
"""Elements that DeepSpeed averages among processes at once, at most (its default)."""
CHECKPOINTS_KEPT = 2
"""Checkpoints of a training under way; while one is written there is one more."""
LIBRARIES = 1_200_000_000
"""Bytes per process of PyTorch, DeepSpeed and the tokens."""
CUDA = 3_000_000_000
"""Bytes per process that CUDA and its libraries take on the host."""
MARGIN = 1.3
"""Factor on the forecast of a training's memory, which was seen to be up to 16 % too low (docs/planning.md)."""
PROCESS = 750_000_000
"""Bytes of a process that has imported PyTorch, and spare."""


def block_parameters(model: ModelConfig) -> int:
    """Entries of the matrices of all sublayers: L (4 d^2 + 3 d d_ff)."""
    return model.layers * model.width * (4 * model.width + 3 * model.ffn_width)


def parameter_count(model: ModelConfig) -> int:
    """Parameters N: sublayer matrices, RMSNorm gains, embedding, and the LM head where it is not the embedding."""
    tables = 1 if model.tie_embeddings else 2
    gains = (2 * model.layers + 1) * model.width
    return block_parameters(model) + gains + tables * model.vocab_size * model.width


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one sequence, forward and backward; a multiplication and an addition are two.

    Elementwise work (norms, SwiGLU, rotary positions, the optimizer) is left out, as is usual: below 1 % at d = 512.
    """

    matrices: int
    """6 a token and entry of every matrix that multiplies: sublayers and LM head. Looking up an embedding is free."""
    attention: int
    """Scores and mixtures, 12 d a layer for each of the n (n + 1)/2 pairs of tokens that a causal mask leaves."""
    recomputed: int
    """A second forward pass through all layers, where activations are checkpointed."""

    @property
    def model(self) -> int:
        """What the model needs: the measure of a utilisation."""
        return self.matrices + self.attention

    @property
    def total(self) -> int:
        """What is done."""
        return self.model + self.recomputed


def flops(model: ModelConfig, activation_checkpointing: bool = False) -> Flops:
    """Operations of training on one sequence of n tokens."""
    n, d = model.sequence_length, model.width
    matrices = 6 * n * (block_parameters(model) + model.vocab_size * d)
    attention = model.layers * 12 * d * (n * (n + 1) // 2)
    forward = 2 * n * block_parameters(model) + attention // 3
    return Flops(matrices, attention, forward if activation_checkpointing else 0)


@dataclass(frozen=True)
class Memory:
    """Bytes on one device at the peak of a training step; what a CUDA context and libraries take comes on top.

    The peak is where the backward pass begins, and all activations are there, or where the gradients are averaged.
    """

    parameters: int
    gradients: int
    """Accumulated in fp32, and in bf16 those of the last micro-batch."""
    optimizer: int
    """AdamW's two moments, and the fp32 master weights: this process's share under ZeRO stage 1."""
    activations: int
    """What autograd keeps of a micro-batch, up to the input of the LM head."""
    logits: int
    """Logarithms of the softmax, and the gradients of these and of the logits, in fp32."""
    buffers: int
    """The recorder's, and the rotary table."""
    update: int
    """While gradients are averaged and the optimizer steps, and activations are gone."""

    @property
    def total(self) -> int:
        """At the peak."""
        kept = self.parameters + self.gradients + self.optimizer + self.buffers
        return kept + max(self.activations + self.logits, self.update)


def memory(
    model: ModelConfig, execution: ExecutionConfig, sequences: int, precision: Precision, on_gpu: bool = False
) -> Memory:
    """Memory of one process of a training.

    The backward pass needs these values per token: at each of the 2L + 1 boundaries the normalized row with and without
    its gain, 2 d; in attention the three projections, queries and keys once more after rotation, and the heads'
    outputs, 6 d, and one logarithm per head in fp32; in the FFN both halves of the input of SwiGLU, SiLU of the gate,
    and the product, 4 d_ff. With checkpointed activations it needs only each layer's inputs, and then one layer's
    activations in turn.

    Args:
        model: The decoder's shape.
        execution: How it is executed.
        sequences: Sequences of an optimizer step, over all processes.
        precision: Of parameters and activations.
        on_gpu: Whether DeepSpeed's reduction buffer of fp32 is really there; on a CPU its untouched pages are not.

    Raises:
        ValueError: where the sequences cannot be split among the processes.
    """
    micro, _ = execution.split(sequences)
    count = parameter_count(model)
    n, d, layers = model.sequence_length, model.width, model.layers
    tokens = micro * n
    size = BF16 if precision == "bf16" else FP32
    shards = execution.processes
    attention = size * 6 * d + FP32 * model.heads
    layer = tokens * (attention + size * (4 * d + 4 * model.ffn_width) + FP32 * 2)
    ends = tokens * size * 2 * d
    logits = 3 * FP32 * tokens * model.vocab_size
    activations = layers * layer + ends
    if execution.activation_checkpointing:
        inputs = 1 if model.placement == "post" else 2
        activations = layers * tokens * size * inputs * d + ends + max(0, layer - logits)
    recorder = (2 * layers + 1) * (tokens + 2 * micro * (d + 1) + 2) + tokens * d
    if precision == "bf16":
        update = 2 * FP32 * min(count, REDUCTION_BUCKET)
    elif on_gpu:
        update = FP32 * max(count // shards, REDUCTION_BUCKET)
    else:
        update = FP32 * count // shards
    return Memory(
        parameters=size * count,
        gradients=(FP32 + (BF16 if precision == "bf16" else 0)) * count,
        optimizer=3 * FP32 * count // shards,
        activations=activations,
        logits=logits,
        buffers=FP32 * (recorder + n * d // model.heads),
        update=update,
    )


def checkpoint_bytes(model: ModelConfig) -> int:
    """Size on disk of one checkpoint: fp32 weights and AdamW's two moments, in any precision."""
    return 3 * FP32 * parameter_count(model)


def training_memory(spec: RunSpec, execution: ExecutionConfig, on_gpus: bool = False) -> int:
    """Bytes on each node of a training: its processes, and the checkpoint that one of them gathers.

    Args:
        spec: The run.
        execution: How it is executed.
        on_gpus: Whether the job asked for GPUs; the larger need counts where `execution.device` does not tell either.
    """
    precision: Precision = "fp32" if spec.training.precision == "auto" else spec.training.precision
    device = "cuda" if on_gpus else execution.device
    there = memory(spec.model, execution, spec.training.sequences_per_step, precision).total
    per_process = {"cpu": MARGIN * there, "cuda": CUDA}
    needed = max(size for kind, size in per_process.items() if device in ("auto", kind))
    return round(execution.processes_per_node * (LIBRARIES + needed) + MARGIN * checkpoint_bytes(spec.model))


def increments_memory(config: Config) -> int:
    """Bytes of a job of the increments: states of all settings, one layer's matrices, one chunk's work."""
    model, probe = config.model, config.probe
    swept = settings(probe.variance_scales, probe.deescalations, probe.sweep)
    sequences = len(swept) * len(probe.inputs) * len(probe.placements)
    chunk = max(CHUNK_TOKENS, model.sequence_length)
    work = chunk * (8 * model.width + 4 * model.ffn_width)
    matrices = (1 + len(probe.variance_scales)) * _layer(model)
    return PROCESS + FP32 * (2 * sequences * _state(model) + matrices + _embedding(model) + work)


def attention_memory(config: Config) -> int:
    """Bytes of a job of the attention sums: one layer's sums, some rows of one initialization's attention."""
    model, seeds = config.model, min(config.probe.seeds_per_job, config.probe.initializations)
    n, heads = model.sequence_length, model.heads
    work = n * (8 * model.width + 4 * model.ffn_width)
    squares = (6 * n + 3 * heads * BLOCK_ROWS) * n + heads * _state(model)
    return PROCESS + FP32 * (squares + 4 * seeds * _state(model) + 2 * _layer(model) + _embedding(model) + work)


def approximations_memory(config: Config) -> int:
    """Bytes of the job of the approximation split: one layer's attention matrices and states."""
    model, probe = config.model, config.probe
    n, heads = model.sequence_length, model.heads
    states = 2 * len(probe.placements) * len(probe.variance_scales) + 8 + 2 * heads
    matrices = (2 + len(probe.variance_scales)) * _layer(model)
    work = n * 4 * model.ffn_width
    return PROCESS + FP32 * (3 * heads * n * n + states * _state(model) + matrices + _embedding(model) + work)


def _layer(model: ModelConfig) -> int:
    """Entries of one layer's matrices."""
    return block_parameters(model) // model.layers


def _state(model: ModelConfig) -> int:
    """Entries of one (n, d) matrix."""
    return model.sequence_length * model.width


def _embedding(model: ModelConfig) -> int:
    return model.vocab_size * model.width
