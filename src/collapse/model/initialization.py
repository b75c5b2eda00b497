"""The paper's standard initialization."""

from collections.abc import Iterable

import torch
from torch import Generator, Tensor

from collapse.config.model import ModelConfig


@torch.no_grad()
def initialize(
    config: ModelConfig, seed: int, embedding: Tensor, sublayers: Iterable[Iterable[Tensor]], head: Tensor
) -> None:
    """Draw all matrices anew, on the CPU, from one generator: embedding, sublayers from first to last, LM head.

    Sublayer matrices are i.i.d. Gaussian with variance 1/(3 fan_in) (Section 2): 1/(3d) for W_Q, W_K, W_V, W_O, W_1 and
    W_3, 1/(3 d_ff) for W_2. The embedding table, (v, d), has `embedding_std`, an untied LM head, (v, d), `head_std`; a
    tied head is the table.
    """
    generator = torch.Generator().manual_seed(seed)
    embedding.normal_(0.0, config.embedding_std, generator=generator)
    for matrices in sublayers:
        draw_matrices(matrices, generator)
    if not config.tie_embeddings:
        head.normal_(0.0, config.head_std, generator=generator)


@torch.no_grad()
def draw_matrices(matrices: Iterable[Tensor], generator: Generator) -> None:
    """Draw a sublayer's matrices, (fan_out, fan_in) each, with the standard variance 1/(3 fan_in)."""
    for matrix in matrices:
        matrix.normal_(0.0, (3 * matrix.shape[1]) ** -0.5, generator=generator)
