"""A decoder at initialization, one layer at a time: the parameters of `Decoder(config, seed)` with less memory."""

from collections.abc import Iterator, Sequence

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from collapse.config.model import ModelConfig
from collapse.config.probe import InputName, InputRms, VarianceTarget
from collapse.corpus.store import Tokens
from collapse.errors import CollapseError
from collapse.model.decoder import Attention, Layer
from collapse.model.initialization import draw_matrices
from collapse.model.norm import residual_norm
from collapse.model.rotary import rotary_table


class Network:
    """The layers of a stack, drawn one after the other from the same generator as in `Decoder(config, seed)`.

    Args:
        config: Shape of the model; the placement of the norm has no effect here.
        seed: Seed of the initialization.
        dtype: Type of parameters and activations; parameters are always drawn in float32.
    """

    def __init__(self, config: ModelConfig, seed: int, dtype: torch.dtype = torch.float32) -> None:
        self.config = config
        self.seed = seed
        self.dtype = dtype
        self.generator = torch.Generator().manual_seed(seed)
        self.embedding = torch.empty(config.vocab_size, config.width)
        self.embedding.normal_(0.0, config.embedding_std, generator=self.generator)
        self.rotary = rotary_table(config.sequence_length, config.width // config.heads, config.rope_base)
        self.gain = torch.ones(config.width, dtype=dtype)
        """RMSNorm's gain, all ones: theory and probes use no gain."""

    def input(self, name: InputName, window: Tensor, rms: InputRms) -> Tensor:
        """The input of the stack, (n, d): Y0 of layer 1.

        Args:
            name: `tokens` embeds the window; `gaussian` draws independent rows with the variance of the embedding, from
                a separate generator.
            window: (n,) token ids.
            rms: `unit` scales every row to RMS 1; `as_trained` does not.
        """
        if name == "tokens":
            rows = self.embedding[window]
        else:
            apart = np.random.SeedSequence([self.seed, 1]).generate_state(1)  # torch reads 32 bits of a seed
            generator = torch.Generator().manual_seed(int(apart[0]))
            rows = torch.empty(len(window), self.config.width)
            rows.normal_(0.0, self.config.embedding_std, generator=generator)
        rows = rows.to(self.dtype)
        return self.normalize(rows[None], None)[1][0] if rms == "unit" else rows

    def normalize(self, residual: Tensor, branch: Tensor | None) -> tuple[Tensor, Tensor]:
        """Y = residual + branch and RMS(Y), without gain and epsilon; (B, n, d) each."""
        return residual_norm(residual, branch, self.gain, 0.0)

    @torch.no_grad()
    def draw_layer(self) -> Layer:
        """The next layer, at the standard variance."""
        with torch.device("meta"):  # skips PyTorch's own initialization, which takes a third of the time of the draw
            layer = Layer(self.config)
        layer.to_empty(device="cpu")
        for branch in (layer.attention, layer.ffn):
            draw_matrices(branch.parameters(), self.generator)
        return layer.requires_grad_(False).to(self.dtype)

    def layers(self, scales: Sequence[float], target: VarianceTarget) -> Iterator[dict[float, Layer]]:
        """Every layer in order, at every variance scale: the same draws, scaled."""
        for _ in range(self.config.layers):
            layer = self.draw_layer()
            yield {scale: scaled(layer, self.config, scale, target) for scale in scales}


@torch.no_grad()
def scaled(layer: Layer, config: ModelConfig, scale: float, target: VarianceTarget) -> Layer:
    """A copy of a layer with `scale` times the variance in the matrices of `target`."""
    if scale == 1:
        return layer
    copy = Layer(config).requires_grad_(False).to(layer.ffn.down.weight.dtype)
    copy.load_state_dict(layer.state_dict())
    values = copy.attention.qkv.weight.chunk(3)[2]
    chosen = list(copy.parameters()) if target == "all" else [values, copy.attention.output.weight]
    for matrix in chosen:
        matrix.mul_(scale**0.5)
    return copy


def prefix_mean(values: Tensor) -> Tensor:
    """C_n V along the positions: row i is the mean of rows 1 to i; (..., n, d)."""
    length = values.shape[-2]
    return values.cumsum(-2).div_(torch.arange(1, length + 1, dtype=values.dtype).unsqueeze(-1))


def attention_branch(attention: Attention, x: Tensor, table: Tensor, deescalation: Tensor | None = None) -> Tensor:
    """Attn(X) with P - a C_n in place of P (Corollary 3.3): (B, n, d).

    Args:
        attention: The sublayer.
        x: (B, n, d), normalized.
        table: Rotary table.
        deescalation: (B,) values of a; None means 0.
    """
    queries, keys, values = attention.project(x, table)
    mixed = functional.scaled_dot_product_attention(queries, keys, values, is_causal=True)
    if deescalation is not None:
        mixed -= deescalation.to(mixed.dtype).view(-1, 1, 1, 1) * prefix_mean(values)
    return attention.merge(mixed)


def attention_weights(attention: Attention, x: Tensor, table: Tensor) -> Tensor:
    """P of every head, explicitly: (heads, n, n) for normalized x (n, d)."""
    queries, keys, _ = attention.project(x[None], table)
    scores = queries[0] @ keys[0].transpose(-1, -2)
    scores *= queries.shape[-1] ** -0.5
    future = torch.ones(scores.shape[-2:], dtype=torch.bool).triu_(1)
    return torch.softmax(scores.masked_fill_(future, -torch.inf), dim=-1)


def read_window(tokens: Tokens, config: ModelConfig, window: int) -> Tensor:
    """The ids of one window of the training tokens, (n,).

    Raises:
        CollapseError: if the corpus is too short for the window, or an id is outside the vocabulary.
    """
    n = config.sequence_length
    ids = torch.from_numpy(tokens[window * n : (window + 1) * n].astype("int64"))
    if len(ids) < n:
        raise CollapseError(
            f"the corpus has {len(tokens)} training tokens, and window {window} of {n} ends at {(window + 1) * n}: "
            "lower probe.window or model.sequence_length, or provide more text"
        )
    if int(ids.max()) >= config.vocab_size:
        raise CollapseError(
            f"token id {int(ids.max())} is outside the model's vocabulary (model.vocab_size is {config.vocab_size}): "
            "use the vocabulary size of the tokenizer"
        )
    return ids
