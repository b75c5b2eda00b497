"""Finished parts of a job under way: what a job that was stopped goes on from."""

import shutil
from pathlib import Path

import xarray as xr

from collapse.errors import CollapseError
from collapse.store.dataset import load_dataset, manifest_of, publish_dataset


class Parts:
    """Datasets by name in a scratch folder that belongs to one job; a damaged or half-written part is no part.

    Args:
        folder: The scratch folder; its name must tell the job's spec and code, see `Plan.job_scratch`.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def _path(self, name: str) -> Path:
        return self.folder / f"{name}.zarr"

    def get(self, name: str) -> xr.Dataset | None:
        """A finished part; None where there is none."""
        try:
            return load_dataset(self._path(name))
        except CollapseError:
            return None

    def put(self, name: str, data: xr.Dataset) -> xr.Dataset:
        """Keep a part; gives it back."""
        publish_dataset(data, self._path(name), None, {})
        return data

    def drop(self, name: str) -> None:
        """Forget a part that no start will need any more."""
        manifest_of(self._path(name)).unlink(missing_ok=True)
        shutil.rmtree(self._path(name), ignore_errors=True)

    def clear(self) -> None:
        """Forget all parts: the job's result is published."""
        shutil.rmtree(self.folder, ignore_errors=True)
