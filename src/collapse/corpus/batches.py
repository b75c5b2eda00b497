"""Training batches as a pure function of seed and step, so that resuming needs no loader state."""

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from collapse.config.training import Scope
from collapse.corpus.store import Tokens
from collapse.errors import CollapseError

Batch = tuple[NDArray[np.int64], NDArray[np.int64]]
"""Inputs and labels, (sequences, sequence_length) each: a label is the token after its input."""


class Batches:
    """The batches of a run.

    The tokens are cut into windows that do not overlap. Each window has `sequence_length` inputs and as many labels,
    shifted by one token. Scope `stream` visits every window once per epoch, in a pseudo-random order drawn from
    (seed, epoch); a step may span two epochs. Under `batch` every step repeats step 0 of the stream, under `sequence`
    only the first sequence of it.
    """

    def __init__(
        self, tokens: Tokens, sequence_length: int, sequences: int, seed: int, scope: Scope, vocab_size: int
    ) -> None:
        """Check and keep the tokens.

        Args:
            tokens: (tokens,) ids.
            sequence_length: n.
            sequences: sequences per step; 1 under scope `sequence`.
            seed: seed of the order.
            scope: what the run trains on.
            vocab_size: vocabulary size of the model; every id must be below it.

        Raises:
            CollapseError: if there are fewer than n + 1 tokens.
            ValueError: if `sequences` is not 1 under scope `sequence`.
        """
        if scope == "sequence" and sequences != 1:
            raise ValueError(f"scope sequence has one sequence per step (got {sequences})")
        self.windows = (len(tokens) - 1) // sequence_length
        if self.windows < 1:
            raise CollapseError(
                f"the corpus has {len(tokens)} training tokens, fewer than one sequence needs (model.sequence_length + "
                f"1 = {sequence_length + 1}): provide more text or shorten the sequences"
            )
        self._tokens = tokens
        self._n = sequence_length
        self._sequences = sequences
        self._seed = seed
        self._scope = scope
        self._vocab_size = vocab_size
        self._permutation = lru_cache(maxsize=2)(self._draw)

    def _draw(self, epoch: int) -> NDArray[np.int64]:
        return np.random.default_rng([self._seed, epoch]).permutation(self.windows)

    def order(self, step: int) -> list[int]:
        """Indices of the windows of a step, counted from the start of the tokens."""
        first = 0 if self._scope != "stream" else step * self._sequences
        visits = (divmod(visit, self.windows) for visit in range(first, first + self._sequences))
        return [int(self._permutation(epoch)[position]) for epoch, position in visits]

    def at(self, step: int) -> Batch:
        """Inputs and labels of a step (0-based), int64, (sequences, sequence_length) each.

        Raises:
            CollapseError: if an id is outside the vocabulary; names the id and its position.
        """
        order = self.order(step)
        rows = _cut(self._tokens, self._n, order)
        if rows.max() >= self._vocab_size:
            sequence, offset = divmod(int(np.argmax(rows >= self._vocab_size)), self._n + 1)
            raise CollapseError(
                f"token id {rows[sequence, offset]} at position {order[sequence] * self._n + offset} of the training "
                f"tokens is outside the model's vocabulary (model.vocab_size is {self._vocab_size}): use the "
                "vocabulary size of the tokenizer"
            )
        return _shift(rows)


def windows(tokens: Tokens, sequence_length: int, count: int) -> Batch:
    """The first `count` windows in order, or all if there are fewer: inputs and labels, (windows, sequence_length)."""
    available = max(0, (len(tokens) - 1) // sequence_length)
    return _shift(_cut(tokens, sequence_length, list(range(min(count, available)))))


def _cut(tokens: Tokens, n: int, numbers: list[int]) -> NDArray[np.int64]:
    rows = np.empty((len(numbers), n + 1), np.int64)
    for row, number in zip(rows, numbers, strict=True):
        row[:] = tokens[number * n : number * n + n + 1]
    return rows


def _shift(rows: NDArray[np.int64]) -> Batch:
    return rows[:, :-1].copy(), rows[:, 1:].copy()
