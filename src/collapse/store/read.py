"""Finished runs as xarray Datasets. Reads what training published; needs no torch."""

import json
from pathlib import Path
from typing import Any

import xarray as xr

from collapse.errors import CollapseError
from collapse.store.manifest import damages, read_manifest

STORE = "metrics.zarr"
MANIFEST = "manifest.json"
AGAIN = "delete the folder and train the run again"
"""What to do about a damaged run."""


def run_folder(path: str | Path) -> Path:
    """The folder of a run, given it or the `metrics.zarr` in it."""
    path = Path(path)
    return path.parent if path.name == STORE else path


def run_manifest(path: str | Path) -> dict[str, Any]:
    """The manifest of a finished run.

    Raises:
        CollapseError: where there is no run, or it is unfinished, or its manifest is damaged or of a newer version.
    """
    folder = run_folder(path)
    if not (folder / STORE).is_dir() and not (folder / MANIFEST).is_file():
        raise CollapseError(f"{folder}: no run here; give the folder of a run, such as results/laptop/runs/<run_id>")
    missing = f"the run is unfinished (it has no {MANIFEST}); train it to its end"
    return read_manifest(folder, folder / MANIFEST, missing, AGAIN)


def open_run(path: str | Path) -> xr.Dataset:
    """A finished run's Dataset, values read when they are used.

    Dimensions `step` (optimizer step), `layer` (1..L) and `sublayer` (attention, ffn); NaN where nothing was measured.
    Every variable has `long_name` and `units`; the attributes hold `run_id`, `spec` and `provenance` (JSON text), and
    `ended`.

    Args:
        path: The run's folder, `results/<name>/runs/<run_id>`, or the `metrics.zarr` in it.

    Raises:
        CollapseError: where there is no run, or it is unfinished or damaged.
    """
    folder = run_folder(path)
    run_manifest(folder)
    try:
        dataset: xr.Dataset = xr.open_zarr(folder / STORE, consolidated=True, chunks=None)
    except Exception as error:  # zarr, its codecs and xarray each raise their own kinds on a damaged store
        raise _damaged(folder, f"{STORE} cannot be opened") from error
    if "step" not in dataset.sizes or "spec" not in dataset.attrs:
        raise _damaged(folder, f"{STORE} holds no run")
    return dataset


def load_run(path: str | Path) -> xr.Dataset:
    """A finished run's Dataset in memory, once its files agree with the digest in its manifest.

    Without that check a lost chunk would read as NaN, "not measured".

    Raises:
        CollapseError: where there is no run, or it is unfinished or damaged.
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
    """All finished runs of a results folder: a tree with one child a run, named by its id.

    Args:
        results: `results/<name>`.

    Raises:
        CollapseError: where no run is finished, or a finished one is damaged.
    """
    return xr.DataTree.from_dict({folder.name: open_run(folder) for folder in finished_runs(results)})


def finished_runs(results: str | Path) -> list[Path]:
    """Folders of the finished runs of a results folder, sorted by run id.

    Raises:
        CollapseError: where there are none.
    """
    folders = sorted(manifest.parent for manifest in Path(results).glob(f"runs/*/{MANIFEST}"))
    if not folders:
        raise CollapseError(f"{results}: no finished runs here; give a results folder, such as results/laptop")
    return folders


def spec_of(dataset: xr.Dataset) -> dict[str, Any]:
    """A run's whole spec as plain builtins: `RunSpec.canonical()`."""
    spec: dict[str, Any] = json.loads(dataset.attrs["spec"])
    return spec


def _damaged(folder: Path, what: str) -> CollapseError:
    return CollapseError(f"{folder}: the run is damaged: {what}; {AGAIN}")
