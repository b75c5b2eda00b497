"""The metric history of a training under way: two raw Zarr arrays in its scratch folder, one writer."""

import hashlib
from pathlib import Path

import numpy as np
import zarr
from numpy.typing import NDArray

from collapse.recording.statistics import LAYERWISE, METRICS, STEPWISE, SUBLAYERS

LAYERWISE_NAMES = tuple(m.name for m in METRICS if m.dims == LAYERWISE)
STEPWISE_NAMES = tuple(m.name for m in METRICS if m.dims == STEPWISE)
CHUNK_STEPS = 64

Array = NDArray[np.float64]


class History:
    """What has been recorded so far; steps that were never written read as NaN.

    Args:
        folder: a Zarr group; created where it does not exist.
        steps: steps that the run is to have.
        layers: number of layers L.
    """

    def __init__(self, folder: Path, steps: int, layers: int) -> None:
        group = zarr.open_group(folder, mode="a")
        chunk = min(CHUNK_STEPS, steps)
        shape = (len(LAYERWISE_NAMES), layers, len(SUBLAYERS))
        self._layerwise = group.require_array(
            "layerwise", shape=(steps, *shape), chunks=(chunk, *shape), dtype="float32", fill_value=np.nan
        )
        self._stepwise = group.require_array(
            "stepwise",
            shape=(steps, len(STEPWISE_NAMES)),
            chunks=(chunk, len(STEPWISE_NAMES)),
            dtype="float64",
            fill_value=np.nan,
        )

    def write(self, start: int, layerwise: dict[str, Array], stepwise: dict[str, Array]) -> None:
        """Write consecutive steps from `start`: (steps, L, 2) and (steps,) arrays by name, every name of the table."""
        count = len(stepwise["loss"])
        block = np.stack([layerwise[name] for name in LAYERWISE_NAMES], axis=1)
        self._layerwise[start : start + count] = block.astype(np.float32)
        self._stepwise[start : start + count] = np.stack([stepwise[name] for name in STEPWISE_NAMES], axis=1)

    def read(self, stop: int) -> tuple[dict[str, NDArray[np.float32]], dict[str, Array]]:
        """The first `stop` steps by name."""
        layerwise, stepwise = np.asarray(self._layerwise[:stop]), np.asarray(self._stepwise[:stop])
        return (
            {name: layerwise[:, index] for index, name in enumerate(LAYERWISE_NAMES)},
            {name: stepwise[:, index] for index, name in enumerate(STEPWISE_NAMES)},
        )

    def digest(self, stop: int) -> str:
        """SHA-256 of the first `stop` steps."""
        content = hashlib.sha256(np.ascontiguousarray(self._layerwise[:stop]).tobytes())
        content.update(np.ascontiguousarray(self._stepwise[:stop]).tobytes())
        return content.hexdigest()
