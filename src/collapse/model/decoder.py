"""A Llama-2 style decoder whose normalization can sit before or behind the residual addition."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor, nn
from torch.nn import functional
from torch.utils.checkpoint import checkpoint

from collapse.config.model import ModelConfig
from collapse.model.initialization import initialize
from collapse.model.norm import residual_norm
from collapse.model.placements import PLACEMENTS
from collapse.model.rotary import rotary_table, rotate

if TYPE_CHECKING:
    from collapse.recording.recorder import Recorder
    from collapse.recording.taps import Tap


class Attention(nn.Module):
    """Causal multi-head attention; the paper's W_Q, W_K, W_V are the three thirds of `qkv`, W_O is `output`."""

    def __init__(self, config: ModelConfig) -> None:
        super().__init__()
        self.heads = config.heads
        self.qkv = nn.Linear(config.width, 3 * config.width, bias=False)
        self.output = nn.Linear(config.width, config.width, bias=False)

    def project(self, x: Tensor, table: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Queries and keys, turned by their positions, and values: (B, heads, n, head_width) each for x (B, n, d).

        The table is that of `rotary_table`.
        """
        batch, length, width = x.shape
        qkv = self.qkv(x).view(batch, length, 3, self.heads, width // self.heads)
        queries_keys, values = qkv.split((2, 1), dim=2)
        queries, keys = rotate(queries_keys, table).transpose(1, 3).unbind(2)
        return queries, keys, values.squeeze(2).transpose(1, 2)

    def merge(self, mixed: Tensor) -> Tensor:
        """The heads' outputs (B, heads, n, head_width), side by side and through W_O: (B, n, d)."""
        batch, _, length, _ = mixed.shape
        out: Tensor = self.output(mixed.transpose(1, 2).reshape(batch, length, -1))
        return out

    def forward(self, x: Tensor, table: Tensor) -> Tensor:
        """(B, n, d) to (B, n, d); the table is that of `rotary_table`."""
        queries, keys, values = self.project(x, table)
        return self.merge(functional.scaled_dot_product_attention(queries, keys, values, is_causal=True))


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
    """The decoder of the paper's section 2.

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
        self.checkpoint_activations = False
        """Whether a layer's activations are computed again in the backward pass rather than kept."""
        self.embedding = nn.Embedding(config.vocab_size, config.width)
        self.layers = nn.ModuleList(Layer(config) for _ in range(config.layers))
        self.norms = nn.ParameterList(nn.Parameter(torch.ones(config.width)) for _ in range(2 * config.layers + 1))
        self.head = nn.Linear(config.width, config.vocab_size, bias=False)
        if config.tie_embeddings:
            self.head.weight = self.embedding.weight
        initialize(config, seed, self.embedding.weight, self.sublayer_matrices(), self.head.weight)

    @property
    def parameter_count(self) -> int:
        """Number of parameters, a tied table counted once."""
        return sum(p.numel() for p in self.parameters())

    @property
    def stack(self) -> list[Layer]:
        """The layers, first to last."""
        return cast(list[Layer], list(self.layers))

    def sublayer_matrices(self) -> list[list[nn.Parameter]]:
        """The weight matrices of every sublayer, in the order of the stack."""
        return [list(branch.parameters()) for layer in self.stack for branch in (layer.attention, layer.ffn)]

    def rotary(self, length: int) -> Tensor:
        """The rotary table of so many positions."""
        config, device = self.config, self.embedding.weight.device
        return rotary_table(length, config.width // config.heads, config.rope_base, device)

    def hidden(self, ids: Tensor, recorder: "Recorder | None" = None) -> Tensor:
        """X^H, the LM head's input: (B, n, d) for token ids (B, n)."""
        length = ids.shape[-1]
        if length > self.config.sequence_length:
            raise ValueError(f"sequence of {length} tokens, longer than sequence_length {self.config.sequence_length}")
        taps = recorder.taps(*ids.shape) if recorder is not None else [None] * len(self.norms)
        gains = list(self.norms)
        y, normed = residual_norm(self.embedding(ids), None, gains[0], self.config.norm_eps, taps[0])
        carried = self.placement.carry(y, normed)
        table = self.rotary(length)
        again = self.checkpoint_activations and torch.is_grad_enabled()
        for index, layer in enumerate(self.stack):
            behind = slice(2 * index + 1, 2 * index + 3)
            inputs = layer, carried, normed, table, gains[behind], taps[behind]
            if again:  # the taps of a layer then measure twice, and write the same values to the same places
                carried, normed = checkpoint(self._through, *inputs, use_reentrant=False, preserve_rng_state=False)
            else:
                carried, normed = self._through(*inputs)
        return normed

    def _through(
        self,
        layer: Layer,
        carried: Tensor,
        normed: Tensor,
        table: Tensor,
        gains: Sequence[Tensor],
        taps: "Sequence[Tap | None]",
    ) -> tuple[Tensor, Tensor]:
        """What the boundary behind a layer hands on, given what the one before it did: X and RMS(Y), (B, n, d) each."""
        eps = self.config.norm_eps
        y, normed = residual_norm(carried, layer.attention(normed, table), gains[0], eps, taps[0])
        carried = self.placement.carry(y, normed)
        y, normed = residual_norm(carried, layer.ffn(normed), gains[1], eps, taps[1])
        return self.placement.carry(y, normed), normed

    def forward(self, ids: Tensor, recorder: "Recorder | None" = None) -> Tensor:
        """Logits (B, n, v) for token ids (B, n); a recorder measures on the way and changes nothing."""
        logits: Tensor = self.head(self.hidden(ids, recorder))
        return logits
