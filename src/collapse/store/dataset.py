"""Datasets of probes and theory: a Zarr folder and a manifest beside it, which is written last and marks completion."""

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import xarray as xr

from collapse.config.identity import canonical_json
from collapse.errors import CollapseError
from collapse.files import write_atomic
from collapse.store.manifest import FORMAT, contents, damages, read_manifest, replacing

AGAIN = "delete it and its manifest, and make it again"
"""Advice for a damaged Dataset."""


def described(data: xr.Dataset, variables: Mapping[str, tuple[str, str, str]]) -> xr.Dataset:
    """A Dataset with `long_name`, `units` and `defined_in` on its variables and coordinates.

    Args:
        data: The values.
        variables: name to (long name, units, source); every variable of the Dataset must be in it.

    Raises:
        KeyError: if a variable has no description.
    """
    for name in [*data.data_vars, *(name for name in data.coords if name in variables)]:
        long_name, units, source = variables[str(name)]
        data[name].attrs.update(long_name=long_name, units=units, defined_in=source)
    return data


def manifest_of(path: Path) -> Path:
    """The manifest of a Dataset: `name.json` beside `name.zarr`."""
    return path.with_suffix(".json")


def publish_dataset(data: xr.Dataset, path: Path, spec: Any, origin: dict[str, Any]) -> None:
    """Write a Dataset and then its manifest, each completely or not at all.

    Args:
        data: What to write.
        path: `name.zarr`; its manifest is `name.json` beside it.
        spec: Everything that determined the values, as plain builtins; stored in the attributes and in the manifest.
        origin: Provenance of the values, see `collapse.provenance`; stored in the same places.
    """
    publish_pieces([data], None, path, spec, origin)


def publish_pieces(
    pieces: Iterable[xr.Dataset], along: str | None, path: Path, spec: Any, origin: dict[str, Any]
) -> None:
    """Like `publish_dataset`, for data that does not fit into memory at once.

    Args:
        pieces: Consecutive Datasets, written one by one.
        along: Dimension along which they follow each other; None for a single piece.
        path: See `publish_dataset`.
        spec: See `publish_dataset`.
        origin: See `publish_dataset`.
    """
    manifest = manifest_of(path)
    attrs = {"format": FORMAT, "spec": canonical_json(spec), "provenance": canonical_json(origin)}
    with replacing(path, manifest) as partial:
        for piece in pieces:
            # Zarr has no standard type for text of fixed length.
            texts = {name: c.astype(object) for name, c in piece.coords.items() if c.dtype.kind == "U"}
            # Drop the chunks that a piece read from a store remembers, so that equal values give equal files.
            data = piece.drop_encoding().assign_coords(texts).assign_attrs(piece.attrs | attrs)
            how: dict[str, Any] = {"append_dim": along} if partial.exists() else {"mode": "w", "zarr_format": 3}
            data.to_zarr(partial, consolidated=True, **how)
    content = {**contents(path), "spec": spec, "provenance": origin}
    write_atomic(manifest, json.dumps(content, indent=2, sort_keys=True) + "\n")


def load_dataset(path: Path) -> xr.Dataset:
    """A finished Dataset in memory; checks its files against the digest in its manifest first.

    Raises:
        CollapseError: if the Dataset is missing, unfinished or damaged.
    """
    with open_dataset(path) as data:
        try:
            loaded: xr.Dataset = data.load()
            return loaded
        except Exception as error:  # zarr, its codecs and xarray raise different errors for a damaged store
            raise _damaged(path, "it cannot be read") from error


def dataset_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a finished Dataset.

    Raises:
        CollapseError: if the manifest is missing, damaged or from a newer version.
    """
    missing = f"missing or unfinished (it has no {manifest_of(path).name}); make it first"
    manifest = read_manifest(path, manifest_of(path), missing, AGAIN)
    if "digest" not in manifest:
        raise _damaged(path, f"{manifest_of(path).name} is not a manifest")
    return manifest


def open_dataset(path: Path) -> xr.Dataset:
    """A finished Dataset that reads values on use; checks its files against the digest in its manifest first.

    Raises:
        CollapseError: if the Dataset is missing, unfinished or damaged.
    """
    manifest = dataset_manifest(path)
    if problems := damages(path, manifest):
        raise _damaged(path, problems[0])
    try:
        opened: xr.Dataset = xr.open_zarr(path, consolidated=True, chunks=None)
        return opened
    except Exception as error:  # as above
        raise _damaged(path, "it cannot be read") from error


def spec_of(data: xr.Dataset) -> Any:
    """Everything that determined a Dataset's values, as plain builtins."""
    return json.loads(data.attrs["spec"])


def _damaged(path: Path, what: str) -> CollapseError:
    return CollapseError(f"{path}: damaged: {what}; {AGAIN}")
