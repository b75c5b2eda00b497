"""Parameters, floating-point operations, memory and disk of jobs, from the config alone.

Shapes: B sequences of n tokens, width d, L layers, H heads, SwiGLU width d_ff, vocabulary v.
"""

from dataclasses import dataclass
from typing import Literal

from collapse.config.execution import ExecutionConfig
from collapse.config.model import ModelConfig
from collapse.config.probe import settings
from collapse.config.root import Config
from collapse.config.run import RunSpec
from collapse.pipeline.blocks import BLOCK_ROWS, CHUNK_TOKENS

Precision = Literal["fp32", "bf16"]

FP64 = 8
FP32 = 4
BF16 = 2
REDUCTION_BUCKET = 500_000_000
"""Most elements that DeepSpeed averages among processes at once (its default)."""
CHECKPOINTS_KEPT = 2
"""Checkpoints that a running training keeps; while it writes one, there is one more."""
LIBRARIES = 1_200_000_000
"""Bytes per process for PyTorch, DeepSpeed and the tokens."""
CUDA = 3_000_000_000
"""Bytes per process for CUDA and its libraries on the host."""
MARGIN = 1.3
"""Factor on the forecast of a training's memory, which was up to 16 % too low in measurements (docs/planning.md)."""
PROCESS = 750_000_000
"""Bytes of a process that has imported PyTorch, with a margin."""


def block_parameters(model: ModelConfig) -> int:
    """Entries of the matrices of all sublayers: L (4 d^2 + 3 d d_ff)."""
    return model.layers * model.width * (4 * model.width + 3 * model.ffn_width)


def parameter_count(model: ModelConfig) -> int:
    """Parameters N: sublayer matrices, RMSNorm gains, embedding, and the LM head if it is not the embedding."""
    tables = 1 if model.tie_embeddings else 2
    gains = (2 * model.layers + 1) * model.width
    return block_parameters(model) + gains + tables * model.vocab_size * model.width


@dataclass(frozen=True)
class Flops:
    """Floating-point operations of one sequence, forward and backward; a multiplication and an addition count as two.

    Elementwise work (norms, SwiGLU, rotary positions, the optimizer) is omitted, as usual: it is below 1 % at d = 512.
    """

    matrices: int
    """6 per token and entry of every matrix in a product: sublayers and LM head. Embedding lookups are free."""
    attention: int
    """Scores and mixtures: 12 d per layer for each of the n (n + 1)/2 pairs of tokens under a causal mask."""
    recomputed: int
    """A second forward pass through all layers, if activations are checkpointed."""

    @property
    def model(self) -> int:
        """Operations that the model needs, the basis of a utilization."""
        return self.matrices + self.attention

    @property
    def total(self) -> int:
        """Operations that the training executes."""
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
    """Bytes on one device at the peak of a training step, without the CUDA context and libraries.

    The peak is at the start of the backward pass, when all activations exist, or when the gradients are averaged.
    """

    parameters: int
    gradients: int
    """Accumulated gradients in fp32 and, in bf16 precision, also those of the last micro-batch in bf16."""
    optimizer: int
    """AdamW's two moments and the fp32 master weights: the share of this process under ZeRO stage 1."""
    activations: int
    """Values that autograd keeps for a micro-batch, up to the input of the LM head."""
    logits: int
    """Logarithms of the softmax, their gradients, and the gradients of the logits, in fp32."""
    buffers: int
    """Buffers of the recorder, and the rotary table."""
    update: int
    """Extra memory for averaging gradients and for the optimizer step, after activations are freed."""

    @property
    def total(self) -> int:
        """Total at the peak."""
        kept = self.parameters + self.gradients + self.optimizer + self.buffers
        return kept + max(self.activations + self.logits, self.update)


def memory(
    model: ModelConfig, execution: ExecutionConfig, sequences: int, precision: Precision, on_gpu: bool = False
) -> Memory:
    """Memory of one process of a training.

    The backward pass needs these values per token:

    - at each of the 2L + 1 boundaries, the normalized row with and without its gain: 2 d;
    - in attention, the three projections, queries and keys again after rotation, and the outputs of the heads: 6 d, and
      one logarithm per head in fp32;
    - in the FFN, both halves of the input of SwiGLU, SiLU of the gate, and the product: 4 d_ff.

    With checkpointed activations it needs only the inputs of each layer, and the activations of one layer at a time.

    Args:
        model: Shape of the decoder.
        execution: Execution of the training.
        sequences: Sequences per optimizer step, over all processes.
        precision: Precision of parameters and activations.
        on_gpu: Whether to count DeepSpeed's whole fp32 reduction buffer; on a CPU, its unused pages take no memory.

    Raises:
        ValueError: if the sequences cannot be split among the processes.
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
        execution: Its execution.
        on_gpus: Whether the job asked for GPUs. If neither this nor `execution.device` decides, the larger need counts.
    """
    precision: Precision = "fp32" if spec.training.precision == "auto" else spec.training.precision
    device = "cuda" if on_gpus else execution.device
    there = memory(spec.model, execution, spec.training.sequences_per_step, precision).total
    per_process = {"cpu": MARGIN * there, "cuda": CUDA}
    needed = max(size for kind, size in per_process.items() if device in ("auto", kind))
    return round(execution.processes_per_node * (LIBRARIES + needed) + MARGIN * checkpoint_bytes(spec.model))


def increments_memory(config: Config) -> int:
    """Bytes of a job of the increments: states of all settings, matrices of one layer, work of one chunk."""
    model, probe = config.model, config.probe
    swept = settings(probe.variance_scales, probe.deescalations, probe.sweep)
    sequences = len(swept) * len(probe.inputs) * len(probe.placements)
    chunk = max(CHUNK_TOKENS, model.sequence_length)
    work = chunk * (8 * model.width + 4 * model.ffn_width)
    matrices = (1 + len(probe.variance_scales)) * _layer(model)
    return PROCESS + FP32 * (2 * sequences * _state(model) + matrices + _embedding(model) + work)


def attention_memory(config: Config) -> int:
    """Bytes of a job of the attention sums: sums of one layer, and a block of attention rows of one initialization."""
    model, seeds = config.model, min(config.probe.seeds_per_job, config.probe.initializations)
    n, heads = model.sequence_length, model.heads
    work = n * (8 * model.width + 4 * model.ffn_width)
    squares = (6 * n + 3 * heads * BLOCK_ROWS) * n + heads * _state(model)
    return PROCESS + FP32 * (squares + 4 * seeds * _state(model) + 2 * _layer(model) + _embedding(model) + work)


def approximations_memory(config: Config) -> int:
    """Bytes of the job of the approximation split: attention matrices and states of one layer."""
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
