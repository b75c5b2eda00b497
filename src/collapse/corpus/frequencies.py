"""Frequency distribution and frequency loss of labels (Definition 3.7)."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

Labels = NDArray[np.integer[Any]]


def frequency_distribution(labels: ArrayLike, vocab_size: int | None = None) -> NDArray[np.float64]:
    """Share of each id among all labels, of any shape: (vocab_size,), sums to 1 (Definition 3.7).

    Without a vocabulary size, the result ends at the largest label.

    Raises:
        ValueError: if there are no labels, or a label is outside the vocabulary.
    """
    counts = _counts(labels)
    if vocab_size is None:
        vocab_size = len(counts)
    if len(counts) > vocab_size:
        raise ValueError(f"label {len(counts) - 1} is outside the vocabulary of {vocab_size}")
    shares = np.zeros(vocab_size)
    shares[: len(counts)] = counts / counts.sum()
    return shares


def entropy(weights: ArrayLike) -> float:
    """Entropy in nats of a distribution given as probabilities or as counts.

    Raises:
        ValueError: if a weight is negative or not finite, or all are 0.
    """
    weights = np.asarray(weights, np.float64).ravel()
    total = weights.sum()
    if not 0 < total < np.inf or (weights < 0).any():
        raise ValueError("entropy needs finite weights that are not negative and do not sum to 0")
    p = weights / total
    p = p[p > 0]
    return max(0.0, float(-(p * np.log(p)).sum()))


def frequency_loss(labels: ArrayLike) -> float:
    """Entropy in nats of all labels, of any shape, together (Definition 3.7).

    Raises:
        ValueError: if there are no labels.
    """
    return entropy(_counts(labels))


def frequency_loss_per_sequence(labels: Labels) -> float:
    """Mean over sequences of the entropy in nats of each sequence's labels (Section 4.3).

    Args:
        labels: (sequences, n).

    Raises:
        ValueError: if there are no labels.
    """
    if labels.size == 0:
        raise ValueError("there are no labels")
    sequences, n = labels.shape
    narrow = np.uint16 if labels.max() < 1 << 16 else np.int64  # numpy sorts 16 bits with a radix sort
    ordered = np.sort(labels.astype(narrow), axis=1, kind="stable")
    starts = np.ones((sequences, n), bool)
    np.not_equal(ordered[:, 1:], ordered[:, :-1], out=starts[:, 1:])
    at = np.flatnonzero(starts)
    counts = np.diff(at, append=sequences * n)
    # A row of counts c has entropy log n - sum(c log c) / n.
    table = np.arange(n + 1, dtype=np.float64)
    table[1:] *= np.log(table[1:])
    inner = np.bincount(at // n, weights=table[counts], minlength=sequences)
    return float(np.maximum(np.log(n) - inner / n, 0.0).mean())


def _counts(labels: ArrayLike) -> NDArray[np.intp]:
    ids = np.asarray(labels)
    if ids.size == 0:
        raise ValueError("there are no labels")
    if ids.dtype.kind not in "iu" or ids.min() < 0:
        wrong = ids.min() if ids.dtype.kind in "iu" else ids.dtype
        raise ValueError(f"labels must be integers >= 0, got {wrong}")
    return np.bincount(ids.ravel())
