"""Finished parts of a job, from which it resumes after a stop."""

import shutil
from pathlib import Path

import xarray as xr

from collapse.errors import CollapseError
from collapse.store.dataset import load_dataset, manifest_of, publish_dataset


class Parts:
    """Datasets by name in the scratch folder of one job; damaged or incomplete parts do not count.

    Args:
        folder: The scratch folder; its name must identify the spec and code of the job, see `Plan.job_scratch`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.zarr"

    def get(self, name: str) -> xr.Dataset | None:
        """A finished part, or None."""
        try:
            return load_dataset(self._path(name))
        except CollapseError:
            return None

    def put(self, name: str, data: xr.Dataset) -> xr.Dataset:
        """Store a part and return it."""
        publish_dataset(data, self._path(name), None, {})
        return data

    def drop(self, name: str) -> None:
        """Delete a part that the job no longer needs."""
        manifest_of(self._path(name)).unlink(missing_ok=True)
        shutil.rmtree(self._path(name), ignore_errors=True)

    def clear(self) -> None:
        """Delete all parts, after the result of the job has been published."""
        shutil.rmtree(self.folder, ignore_errors=True)
