"""Publication: the Dataset of a finished run, and the manifest that marks it as complete."""

import json
import os
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from collapse.config.identity import canonical_json
from collapse.config.run import RunSpec
from collapse.files import write_atomic
from collapse.recording.statistics import METRICS, SUBLAYERS
from collapse.store.history import History
from collapse.store.manifest import FORMAT, contents, replacing

SHARD_STEPS = 4096
COMPLETED = "completed"
"""The value of `ended` for a run that made all of its steps."""


def dataset(
    spec: RunSpec, history: History, stop: int, run_values: Mapping[str, float], provenance: Any, ended: str
) -> xr.Dataset:
    """The Dataset of docs/metrics.md: dims step, layer, sublayer; every variable with long_name and units.

    Args:
        spec: the whole spec of the run, stored in the attributes.
        history: the recorded values.
        stop: number of steps made.
        run_values: values without dimensions, by name.
        provenance: plain data: code, versions, device.
        ended: "completed", or the reason why the run ended early.
    """
    steps, layerwise, stepwise = history.read(stop)
    values: dict[str, Any] = {**layerwise, **stepwise, **{k: np.float64(v) for k, v in run_values.items()}}
    variables = {
        m.name: xr.Variable(
            m.dims, values[m.name], {"long_name": m.long_name, "units": m.units, "defined_in": m.origin}
        )
        for m in METRICS
    }
    coords = {
        "step": xr.Variable("step", steps, {"long_name": "optimizer step: updates made before it"}),
        "layer": xr.Variable("layer", np.arange(1, spec.model.layers + 1), {"long_name": "layer, 1-based"}),
        "sublayer": xr.Variable("sublayer", np.array(SUBLAYERS, dtype=object), {"long_name": "sublayer of the layer"}),
    }
    attrs = {
        "run_id": spec.run_id,
        "ended": ended,
        "format": FORMAT,
        "spec": canonical_json(spec.canonical()),
        "provenance": canonical_json(provenance),
    }
    return xr.Dataset(variables, coords, attrs)


def deliver(finished: Path, out: Path) -> None:
    """Copy a published run to another folder, store first, manifest last; uses hard links if possible.

    Args:
        finished: A folder that `publish` wrote.
        out: The folder of the run in the results; its old content is replaced.
    """
    manifest = out / "manifest.json"
    with replacing(out / "metrics.zarr", manifest) as partial:
        shutil.copytree(finished / "metrics.zarr", partial, copy_function=_link)
    write_atomic(manifest, (finished / "manifest.json").read_bytes())


def _link(source: str, target: str) -> None:
    try:
        os.link(source, target)
    except OSError:  # another file system, or one without hard links
        shutil.copyfile(source, target)


def publish(data: xr.Dataset, out: Path) -> None:
    """Write `metrics.zarr` and then `manifest.json` to the folder of a run, each completely or not at all."""
    manifest, store = out / "manifest.json", out / "metrics.zarr"
    encoding = {
        name: {"chunks": tuple(min(size, SHARD_STEPS) if d == "step" else size for d, size in v.sizes.items())}
        for name, v in data.variables.items()
        if v.dims
    }
    with replacing(store, manifest) as partial:
        data.to_zarr(partial, mode="w", consolidated=True, zarr_format=3, encoding=encoding)
    origin = json.loads(data.attrs["provenance"])
    content = {
        "run_id": data.attrs["run_id"],
        **contents(store),
        "steps": int(data["step"][-1]) + 1,
        "ended": data.attrs["ended"],
        "code": origin["code"],
        "spec": json.loads(data.attrs["spec"]),
        "provenance": origin,
    }
    write_atomic(manifest, json.dumps(content, indent=2, sort_keys=True) + "\n")
