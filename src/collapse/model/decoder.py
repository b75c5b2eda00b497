"""A Llama-2 style decoder whose normalization can sit before or behind the residual addition."""

from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn
from torch.nn import functional

from collapse.config.model import ModelConfig
from collapse.model.initialization import initialize
from collapse.model.placements import PLACEMENTS
from collapse.model.rotary import rotary_tables, rotate
from collapse.recording.boundary import residual_norm

if TYPE_CHECKING:
    from collapse.recording.recorder import Recorder


class Attention(nn.Module):
    """Causal multi-head attention; the paper's W_Q, W_K, W_V are the three thirds of `qkv`, W_O is `output`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.output = nn.Linear(config.width, config.width, bias=False)

    def forward(self, x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
        """(B, n, d) to (B, n, d); the rotary tables are (n, 1, 1, head_width / 2)."""
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        queries, keys = rotate(qkv[:, :, :2], cos, sin).unbind(2)
        values = qkv[:, :, 2]
        mixed = functional.scaled_dot_product_attention(
            queries.transpose(1, 2), keys.transpose(1, 2), values.transpose(1, 2), is_causal=True
        )
        out: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, width))
        return out


class FeedForward(nn.Module):
    """SwiGLU (equation 2); the paper's W_1 and W_3 are the two halves of `gate_up`, W_2 is `down`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.gate_up = nn.Linear(config.width, 2 * config.ffn_width, bias=False)
        self.down = nn.Linear(config.ffn_width, config.width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        """(B, n, d) to (B, n, d)."""
        gate, up = self.gate_up(x).chunk(2, dim=-1)
        out: Tensor = self.down(functional.silu(gate) * up)
        return out


class Layer(nn.Module):
    """The two sublayers' branches of a layer; where they meet the residual stream is the decoder's business."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.attention = Attention(config)
        self.ffn = FeedForward(config)


class Decoder(nn.Module):
    """The decoder of SPEC section 1.

    The stack is a chain of boundaries: boundary 0 behind the embedding, boundary j behind sublayer j. Each adds the
    branch to the residual, normalizes, and hands on; `norms[j]` is its RMSNorm gain, the last one that of X^H.

    Args:
        config: the shape, and the placement of the normalization.
        seed: seed of the initialization; the same seed gives the same parameters on every device.
    """

    def __init__(self, config: ModelConfig, seed: int = 0) -> None:
        super().__init__()
        self.config = config
        self.placement = PLACEMENTS[config.placement]
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(config.width)) for _ in range(2 * config.layers + 1))
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight
        cos, sin = rotary_tables(config.sequence_length, config.width // config.heads, config.rope_base)
        self.register_buffer("cos", cos[:, None, None, :], persistent=False)
        self.register_buffer("sin", sin[:, None, None, :], persistent=False)
        initialize(self, seed)

    @property
    def parameter_count(self) -> int:
        """Number of parameters, a tied table counted once."""
        return sum(p.numel() for p in self.parameters())

    def sublayer_matrices(self) -> list[list[nn.Parameter]]:
        """The weight matrices of every sublayer, in the order of the stack."""
        return [
            [parameter for parameter in branch.parameters()]
            for layer in self.layers
            for branch in (layer.attention, layer.ffn)
        ]

    def hidden(self, ids: Tensor, recorder: "Recorder | None" = None) -> Tensor:
        """X^H, the LM head's input: (B, n, d) for token ids (B, n)."""
        length = ids.shape[-1]
        if length > self.config.sequence_length:
            raise ValueError(f"sequence of {length} tokens, longer than sequence_length {self.config.sequence_length}")
        taps = iter(recorder.taps(*ids.shape) if recorder is not None else [None] * len(self.norms))
        gains = iter(self.norms)
        eps = self.config.norm_eps
        y, normed = residual_norm(self.embedding(ids), None, next(gains), eps, next(taps))
        cos, sin = self.cos[:length].to(normed.dtype), self.sin[:length].to(normed.dtype)  # type: ignore[index]
        for layer in self.layers:
            branch = layer.attention(normed, cos, sin)
            y, normed = residual_norm(self.placement.carry(y, normed), branch, next(gains), eps, next(taps))
            branch = layer.ffn(normed)
            y, normed = residual_norm(self.placement.carry(y, normed), branch, next(gains), eps, next(taps))
        return normed

    def forward(self, ids: Tensor, recorder: "Recorder | None" = None) -> Tensor:
        """Logits (B, n, v) for token ids (B, n); a recorder measures on the way and changes nothing."""
        logits: Tensor = self.head(self.hidden(ids, recorder))
        return logits
