"""Finished runs as xarray Datasets, as training published them; needs no torch."""

import json
from pathlib import Path
from typing import Any

import xarray as xr

from collapse.errors import CollapseError
from collapse.store.manifest import damages, read_manifest

STORE = "metrics.zarr"
MANIFEST = "manifest.json"
AGAIN = "delete the folder and train the run again"
"""Advice for a damaged run."""


def run_folder(path: str | Path) -> Path:
    """The folder of a run, from its path or the path of the `metrics.zarr` in it."""
    path = Path(path)
    return path.parent if path.name == STORE else path


def run_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a finished run.

    Raises:
        CollapseError: if the run is missing or unfinished, or its manifest is damaged or from a newer version.
    """
    folder = run_folder(path)
    if not (folder / STORE).is_dir() and not (folder / MANIFEST).is_file():
        raise CollapseError(f"{folder}: no run here; give the folder of a run, such as results/laptop/runs/<run_id>")
    missing = f"the run is unfinished (it has no {MANIFEST}); train it to its end"
    return read_manifest(folder, folder / MANIFEST, missing, AGAIN)


def open_run(path: str | Path) -> xr.Dataset:
    """The Dataset of a finished run; reads values on use.

    Dimensions `step` (optimizer step), `layer` (1..L) and `sublayer` (attention, ffn); NaN means not measured.
    Every variable has `long_name` and `units`; the attributes hold `run_id`, `spec` and `provenance` (JSON text), and
    `ended`.

    Args:
        path: The run's folder, `results/<name>/runs/<run_id>`, or the `metrics.zarr` in it.

    Raises:
        CollapseError: if the run is missing, unfinished or damaged.
    """
    folder = run_folder(path)
    run_manifest(folder)
    try:
        dataset: xr.Dataset = xr.open_zarr(folder / STORE, consolidated=True, chunks=None)
    except Exception as error:  # zarr, its codecs and xarray raise different errors for a damaged store
        raise _damaged(folder, f"{STORE} cannot be opened") from error
    if "step" not in dataset.sizes or "spec" not in dataset.attrs:
        raise _damaged(folder, f"{STORE} holds no run")
    return dataset


def load_run(path: str | Path) -> xr.Dataset:
    """The Dataset of a finished run in memory; checks its files against the digest in its manifest first.

    Without this check, a lost chunk would read as NaN, which means "not measured".

    Raises:
        CollapseError: if the run is missing, unfinished or damaged.
    """
    folder = run_folder(path)
    with open_run(folder) as dataset:
        if problems := damages(folder / STORE, run_manifest(folder)):
            raise _damaged(folder, problems[0])
        try:
            return dataset.load()
        except Exception as error:  # as above
            raise _damaged(folder, f"{STORE} cannot be read") from error


def open_runs(results: str | Path) -> xr.DataTree:
    """All finished runs of a results folder: a tree with one child per run, named by its id.

    Args:
        results: `results/<name>`.

    Raises:
        CollapseError: if no run is finished, or a finished run is damaged.
    """
    return xr.DataTree.from_dict({folder.name: open_run(folder) for folder in finished_runs(results)})


def finished_runs(results: str | Path) -> list[Path]:
    """Folders of the finished runs of a results folder, sorted by run id.

    Raises:
        CollapseError: if no run is finished.
    """
    folders = sorted(manifest.parent for manifest in Path(results).glob(f"runs/*/{MANIFEST}"))
    if not folders:
        raise CollapseError(f"{results}: no finished runs here; give a results folder, such as results/laptop")
    return folders


def spec_of(dataset: xr.Dataset) -> dict[str, Any]:
    """The whole spec of a run as plain builtins, see `RunSpec.canonical()`."""
    spec: dict[str, Any] = json.loads(dataset.attrs["spec"])
    return spec


def _damaged(folder: Path, what: str) -> CollapseError:
    return CollapseError(f"{folder}: the run is damaged: {what}; {AGAIN}")
