"""Parameters, floating-point operations, memory and disk of a training, from its config alone.

Shapes as in SPEC section 1: B sequences of n tokens, width d, L layers, H heads, SwiGLU width d_ff, vocabulary v.
"""

from dataclasses import dataclass
from typing import Literal

from collapse.config.model import ModelConfig
from collapse.config.training import ExecutionConfig
from collapse.recording.statistics import LAYERWISE, METRICS, STEPWISE, SUBLAYERS

Precision = Literal["fp32", "bf16"]

FP64 = 8
FP32 = 4
BF16 = 2
REDUCTION_BUCKET = 500_000_000
"""Elements that DeepSpeed averages among processes at once, at most (its default)."""
ATTENTION_BLOCK = 128
"""Rows of attention weights that fp32 on a CPU computes together (`collapse.model.causal_attention.BLOCK`)."""
COMPRESSION = 0.9
"""Bytes of a metric store over those of its values: ten runs of the laptop config took 0.85 to 0.92."""
STORE_OVERHEAD = 30_000
"""Bytes of a metric store's descriptions: its size where there are no steps."""
CHECKPOINTS_KEPT = 2
"""Checkpoints of a training under way; while one is written there is one more."""


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

    Kept for the backward pass, a token: at each of the 2L + 1 boundaries the normalized row with and without its gain,
    2 d; in attention the three projections, queries and keys once more after rotation, and the heads' outputs, 6 d, or
    in fp32 on a CPU the rotated three, the outputs, and the attention weights, 4 d and (n + 128)/2 a head; in the FFN
    both halves of the input of SwiGLU, SiLU of the gate, and the product, 4 d_ff. With checkpointed activations only
    each layer's inputs, and then one layer's activations in turn.

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
    shards = execution.processes if execution.zero_stage == 1 else 1
    masters = 0 if precision == "fp32" and execution.zero_stage == 0 else FP32 * count
    if precision == "fp32" and not on_gpu:
        attention = FP32 * (4 * d + model.heads * (n + min(n, ATTENTION_BLOCK)) // 2)
    else:
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
    elif execution.zero_stage == 1 and on_gpu:
        update = FP32 * max(count // shards, REDUCTION_BUCKET)
    else:
        update = FP32 * count // shards
    return Memory(
        parameters=size * count,
        gradients=(FP32 + (BF16 if precision == "bf16" else 0)) * count,
        optimizer=(2 * FP32 * count + masters) // shards,
        activations=activations,
        logits=logits,
        buffers=FP32 * (recorder + n * d),
        update=update,
    )


def store_bytes(layers: int, recorded_steps: int) -> int:
    """Size on disk of the metrics of a run of L layers."""
    layerwise = sum(metric.dims == LAYERWISE for metric in METRICS) * layers * len(SUBLAYERS)
    stepwise = sum(metric.dims == STEPWISE for metric in METRICS) + 1  # and the step itself
    return STORE_OVERHEAD + round(COMPRESSION * recorded_steps * (FP32 * layerwise + FP64 * stepwise))


def checkpoint_bytes(model: ModelConfig) -> int:
    """Size on disk of one checkpoint: fp32 weights and AdamW's two moments, in any precision."""
    return 3 * FP32 * parameter_count(model)
