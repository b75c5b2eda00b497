"""Small Post-Norm networks in float64, all of whose states are accessible, to try the paper's statements on."""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from collapse.config.model import ModelConfig
from collapse.model.decoder import Decoder
from collapse.model.norm import residual_norm

SHAPE = ModelConfig(
    layers=4, width=32, heads=4, ffn_width=48, sequence_length=24, vocab_size=12, tie_embeddings=False, head_std=0.2,
    norm_eps=0.0,
)  # fmt: skip
"""No epsilon, and gains stay at 1. The vocabulary is smaller than n, so that every label can occur, and smaller than d,
so that the LM head leaves some directions free."""


@dataclass
class Trial:
    """One random construction.

    Args:
        share: 0 in the first trial, 1 in the last: sweeps what a statement leaves free, such as t.
        generator: Source of everything random in the trial.
    """

    share: float
    generator: torch.Generator

    @staticmethod
    def draw(seed: int, index: int, trials: int) -> "Trial":
        """Trial `index` of `trials`, at least 2; equal arguments give equal trials."""
        state = int(np.random.SeedSequence([seed, index]).generate_state(1)[0])
        return Trial(index / (trials - 1), torch.Generator().manual_seed(state))

    @cached_property
    def decoder(self) -> Decoder:
        """A network whose sublayer matrices have 1 to 2 times the standard deviation of standard initialization."""
        decoder = Decoder(SHAPE, int(torch.randint(2**31, (), generator=self.generator))).double()
        with torch.no_grad():
            for matrix in (matrix for matrices in decoder.sublayer_matrices() for matrix in matrices):
                matrix.mul_(1 + self.share)
        return decoder

    def normal(self, *shape: int) -> Tensor:
        """Independent standard normal numbers."""
        return torch.randn(shape, generator=self.generator, dtype=torch.float64)

    def collapsed(self) -> Tensor:
        """One random row, repeated: (n, d)."""
        return self.normal(1, SHAPE.width).expand(SHAPE.sequence_length, -1).contiguous()

    def centred(self) -> Tensor:
        """Random rows whose columns sum to 0: (n, d)."""
        rows = self.normal(SHAPE.sequence_length, SHAPE.width)
        return rows - rows.mean(0)

    def labels(self) -> Tensor:
        """Labels of one sequence; every label of the vocabulary occurs: (n,)."""
        free = SHAPE.sequence_length - SHAPE.vocab_size
        drawn = torch.randint(SHAPE.vocab_size, (free,), generator=self.generator)
        return torch.cat([torch.arange(SHAPE.vocab_size), drawn])


def normalize(y: Tensor) -> Tensor:
    """RMSNorm of each row, without gain and epsilon: (..., n, d)."""
    return residual_norm(y, None, torch.ones(y.shape[-1], dtype=y.dtype), 0.0)[1]


@dataclass(frozen=True)
class States:
    """X_k and Y_k of every sublayer for one sequence, from first to last, (n, d) each, with their gradients."""

    x: list[Tensor]
    """2 L + 1 states; the last is X^H."""
    y: list[Tensor]
    """2 L states."""

    @property
    def grad_x(self) -> NDArray[np.float64]:
        """||dL/dX_k||_F, (2 L + 1,)."""
        return norms(x.grad for x in self.x if x.grad is not None)

    @property
    def grad_y(self) -> NDArray[np.float64]:
        """||dL/dY_k||_F, (2 L,)."""
        return norms(y.grad for y in self.y if y.grad is not None)


def run(decoder: Decoder, rows: Tensor) -> States:
    """The states of a Post-Norm network that reads rows (n, d) instead of embedded tokens."""
    table = decoder.rotary(len(rows))
    x = normalize(rows.requires_grad_())
    states = States([x], [])
    for layer in decoder.stack:
        for branch in (partial(layer.attention, table=table), layer.ffn):
            y = x + branch(x[None])[0]
            x = normalize(y)
            states.y.append(y)
            states.x.append(x)
    for state in (*states.x, *states.y):
        state.retain_grad()
    return states


def norms(tensors: Iterable[Tensor]) -> NDArray[np.float64]:
    """Frobenius norms of tensors."""
    return np.array([float(torch.linalg.vector_norm(tensor.detach())) for tensor in tensors])
