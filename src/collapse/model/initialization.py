"""The paper's standard initialization."""

from collections.abc import Iterable
from typing import TYPE_CHECKING

import torch
from torch import Generator, Tensor

if TYPE_CHECKING:
    from collapse.model.decoder import Decoder


@torch.no_grad()
def initialize(decoder: "Decoder", seed: int) -> None:
    """Draw every parameter anew, on the CPU, from one generator: embedding, sublayers from first to last, LM head.

    Sublayer matrices are i.i.d. Gaussian with variance 1/(3 fan_in) (Section 2): 1/(3d) for W_Q, W_K, W_V, W_O, W_1 and
    W_3, 1/(3 d_ff) for W_2. The embedding table has `embedding_std`, an untied LM head `head_std`. Gains are 1.
    """
    generator = torch.Generator().manual_seed(seed)
    config = decoder.config
    decoder.embedding.weight.normal_(0.0, config.embedding_std, generator=generator)
    for matrices in decoder.sublayer_matrices():
        draw_matrices(matrices, generator)
    for gain in decoder.norms:
        gain.fill_(1.0)
    if not config.tie_embeddings:
        decoder.head.weight.normal_(0.0, config.head_std, generator=generator)


@torch.no_grad()
def draw_matrices(matrices: Iterable[Tensor], generator: Generator) -> None:
    """Draw a sublayer's matrices, (fan_out, fan_in) each, with the standard variance 1/(3 fan_in)."""
    for matrix in matrices:
        matrix.normal_(0.0, (3 * matrix.shape[1]) ** -0.5, generator=generator)
