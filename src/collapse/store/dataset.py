"""Datasets of probes and theory: a Zarr folder, and a manifest beside it that is written last and says it is whole."""

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
"""What to do about a damaged Dataset."""


def described(data: xr.Dataset, variables: Mapping[str, tuple[str, str, str]]) -> xr.Dataset:
    """A Dataset with `long_name`, `units` and `defined_in` on its variables and coordinates.

    Args:
        data: The values.
        variables: name to (long name, units, source); every variable of the Dataset must be in it.

    Raises:
        KeyError: for a variable that is not described.
    """
    for name in [*data.data_vars, *(name for name in data.coords if name in variables)]:
        long_name, units, source = variables[str(name)]
        data[name].attrs.update(long_name=long_name, units=units, defined_in=source)
    return data


def manifest_of(path: Path) -> Path:
    """The manifest of a Dataset: `name.json` beside `name.zarr`."""
    return path.with_suffix(".json")


def publish_dataset(data: xr.Dataset, path: Path, spec: Any, origin: dict[str, Any]) -> None:
    """Write a Dataset and then its manifest, each whole or not at all.

    Args:
        data: What to write.
        path: `name.zarr`; its manifest is `name.json` beside it.
        spec: Everything that determined the values, as plain builtins; kept in the attributes and in the manifest.
        origin: Where they come from, see `collapse.provenance`; kept likewise.
    """
    publish_pieces([data], None, path, spec, origin)


def publish_pieces(
    pieces: Iterable[xr.Dataset], along: str | None, path: Path, spec: Any, origin: dict[str, Any]
) -> None:
    """`publish_dataset` for what is too large to be in memory as one.

    Args:
        pieces: Datasets that follow on each other, written one by one.
        along: Their common dimension; None where there is but one piece.
        path: See `publish_dataset`.
        spec: Likewise.
        origin: Likewise.
    """
    manifest = manifest_of(path)
    attrs = {"format": FORMAT, "spec": canonical_json(spec), "provenance": canonical_json(origin)}
    with replacing(path, manifest) as partial:
        for piece in pieces:
            # Zarr has no settled type for text of fixed length.
            texts = {name: c.astype(object) for name, c in piece.coords.items() if c.dtype.kind == "U"}
            # A piece that was read from a store remembers its chunks; equal values shall be equal files.
            data = piece.drop_encoding().assign_coords(texts).assign_attrs(piece.attrs | attrs)
            how: dict[str, Any] = {"append_dim": along} if partial.exists() else {"mode": "w", "zarr_format": 3}
            data.to_zarr(partial, consolidated=True, **how)
    content = {**contents(path), "spec": spec, "provenance": origin}
    write_atomic(manifest, json.dumps(content, indent=2, sort_keys=True) + "\n")


def load_dataset(path: Path) -> xr.Dataset:
    """A finished Dataset in memory, once its files agree with the digest in its manifest.

    Raises:
        CollapseError: where there is none, or it is unfinished or damaged.
    """
    with open_dataset(path) as data:
        try:
            loaded: xr.Dataset = data.load()
            return loaded
        except Exception as error:  # zarr, its codecs and xarray each raise their own kinds on a damaged store
            raise _damaged(path, "it cannot be read") from error


def dataset_manifest(path: Path) -> dict[str, Any]:
    """The manifest of a finished Dataset.

    Raises:
        CollapseError: where there is none, or it is damaged or of a newer version.
    """
    missing = f"missing or unfinished (it has no {manifest_of(path).name}); make it first"
    manifest = read_manifest(path, manifest_of(path), missing, AGAIN)
    if "digest" not in manifest:
        raise _damaged(path, f"{manifest_of(path).name} is not a manifest")
    return manifest


def open_dataset(path: Path) -> xr.Dataset:
    """A finished Dataset whose values are read as they are used, once its files agree with its manifest's digest.

    Raises:
        CollapseError: where there is none, or it is unfinished or damaged.
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
