"""The metric history of a running training: raw Zarr arrays in its scratch folder, with a single writer."""

import hashlib
import shutil
from bisect import bisect_left
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import numpy as np
import zarr
from numpy.typing import NDArray

from collapse.files import naming
from collapse.recording.statistics import LAYERWISE, METRICS, STEPWISE, SUBLAYERS

LAYERWISE_NAMES = tuple(m.name for m in METRICS if m.dims == LAYERWISE)
STEPWISE_NAMES = tuple(m.name for m in METRICS if m.dims == STEPWISE)
CHUNK_STEPS = 64
NEVER = -1
"""Step number of a row that was not written."""

Array = NDArray[np.float64]


class Recorded(NamedTuple):
    """Recorded values of some steps."""

    steps: NDArray[np.int64]
    layerwise: dict[str, NDArray[np.float32]]
    """Name to (steps, L, 2)."""
    stepwise: dict[str, Array]
    """Name to (steps,)."""


class History:
    """The values recorded so far, with one row for every step that the run records.

    Args:
        folder: a Zarr group; created if it is missing or unreadable.
        steps: steps that the run records, ascending.
        layers: number of layers L.
    """

    def __init__(self, folder: Path, steps: Sequence[int], layers: int) -> None:
        self._steps, self._folder = steps, folder
        self._hashes: list[hashlib._Hash] = []
        self._hashed = 0
        try:
            self._open(layers)
        except (TypeError, ValueError, KeyError):
            shutil.rmtree(folder)
            self._open(layers)

    def _open(self, layers: int) -> None:
        group = zarr.open_group(self._folder, mode="a")
        rows, chunk = len(self._steps), min(CHUNK_STEPS, len(self._steps))
        layerwise = (len(LAYERWISE_NAMES), layers, len(SUBLAYERS))
        stepwise = (len(STEPWISE_NAMES),)
        self._layerwise = group.require_array(
            "layerwise", shape=(rows, *layerwise), chunks=(chunk, *layerwise), dtype="float32", fill_value=np.nan
        )
        self._stepwise = group.require_array(
            "stepwise", shape=(rows, *stepwise), chunks=(chunk, *stepwise), dtype="float64", fill_value=np.nan
        )
        self._step = group.require_array("step", shape=(rows,), chunks=(chunk,), dtype="int64", fill_value=NEVER)

    def rows_before(self, step: int) -> int:
        """Number of rows for the steps before `step`."""
        return bisect_left(self._steps, step)

    def write(self, steps: Sequence[int], layerwise: dict[str, Array], stepwise: dict[str, Array]) -> None:
        """Write consecutive entries of the run's list of steps: one array per metric of the table.

        A run that fails at a step outside the list may write this step as its last one.

        Args:
            steps: the steps.
            layerwise: name to (steps, L, 2).
            stepwise: name to (steps,).
        """
        if not len(steps):
            return
        rows = slice(start := self.rows_before(steps[0]), start + len(steps))
        if start < self._hashed:
            self._hashes = []
        block = np.stack([layerwise[name] for name in LAYERWISE_NAMES], axis=1)
        with naming(self._folder):
            self._layerwise[rows] = block.astype(np.float32)
            self._stepwise[rows] = np.stack([stepwise[name] for name in STEPWISE_NAMES], axis=1)
            self._step[rows] = np.asarray(steps, np.int64)

    def read(self, stop: int) -> Recorded:
        """The steps recorded before step `stop`."""
        steps = np.asarray(self._step[:])
        there = (steps != NEVER) & (steps < stop)
        layerwise, stepwise = np.asarray(self._layerwise[:])[there], np.asarray(self._stepwise[:])[there]
        return Recorded(
            steps[there],
            {name: layerwise[:, index] for index, name in enumerate(LAYERWISE_NAMES)},
            {name: stepwise[:, index] for index, name in enumerate(STEPWISE_NAMES)},
        )

    def digest(self, stop: int) -> str:
        """SHA-256 of the steps before step `stop`."""
        rows, arrays = self.rows_before(stop), (self._step, self._layerwise, self._stepwise)
        if rows < self._hashed or not self._hashes:
            self._hashes, self._hashed = [hashlib.sha256() for _ in arrays], 0
        for content, array in zip(self._hashes, arrays, strict=True):  # only rows added since the last call
            content.update(np.ascontiguousarray(array[self._hashed : rows]).tobytes())
        self._hashed = rows
        return hashlib.sha256(b"".join(content.digest() for content in self._hashes)).hexdigest()
