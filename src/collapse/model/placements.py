"""Placements: how a sublayer meets its residual and its norm. docs/extending.md says how to add one."""

from typing import Protocol

from torch import Tensor


class Placement(Protocol):
    """What a boundary hands on, given Y and RMS(Y); the branch behind it always reads RMS(Y)."""

    x_is_normed: bool
    """Whether the next sublayer's input X is RMS(Y) rather than Y."""

    def carry(self, y: Tensor, normed: Tensor) -> Tensor:
        """X of the next sublayer, which is what its residual connection carries; all (B, n, d)."""
        ...


class PostNorm:
    """X1 = RMS(Y0), Y1 = X1 + Attn(X1), X2 = RMS(Y1), Y2 = X2 + FFN(X2) (equation 1)."""

    x_is_normed = True

    def carry(self, y: Tensor, normed: Tensor) -> Tensor:
        """The normalized rows: the residual stream itself is normalized."""
        return normed


class PreNorm:
    """X1 = Y0, Y1 = X1 + Attn(RMS(X1)), X2 = Y1, Y2 = X2 + FFN(RMS(X2))."""

    x_is_normed = False

    def carry(self, y: Tensor, normed: Tensor) -> Tensor:
        """The rows as they are: only the branch's input is normalized."""
        return y


PLACEMENTS: dict[str, Placement] = {"post": PostNorm(), "pre": PreNorm()}
