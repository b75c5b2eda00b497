"""The common part of the manifests of runs and datasets: version of the layout, and files of the store."""

import json
import shutil
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from collapse.errors import CollapseError
from collapse.files import digest_of, naming, tree_files

FORMAT = 2
"""Version of the layout of stores: since 2 a manifest lists the files, and a run's steps may have gaps."""


def contents(store: Path) -> dict[str, Any]:
    """Entries of a manifest for later checks of the store: format, digest of every file, and a total digest."""
    files = tree_files(store)
    return {"format": FORMAT, "digest": digest_of(files), "files": files}


@contextmanager
def replacing(store: Path, manifest: Path) -> Iterator[Path]:
    """Replace a store, completely or not at all: deletes the old manifest first and gives the store its name last.

    Args:
        store: The Zarr folder; its old content is deleted.
        manifest: Its manifest, which the caller writes after this context.

    Yields:
        The folder to write to.
    """
    store.parent.mkdir(parents=True, exist_ok=True)
    partial = store.with_name(f".{store.name}.partial")
    manifest.unlink(missing_ok=True)
    for leftover in (partial, store):
        if leftover.exists():
            shutil.rmtree(leftover)
    with warnings.catch_warnings(), naming(partial):
        warnings.filterwarnings("ignore", "Consolidated metadata is currently not part")
        yield partial
    partial.replace(store)


def read_manifest(store: Path, manifest: Path, missing: str, again: str) -> dict[str, Any]:
    """Content of a manifest.

    Args:
        store: The store of the manifest, for messages.
        manifest: The file.
        missing: What to say and advise if the file is missing.
        again: Advice on how to make the store again if the manifest is damaged.

    Raises:
        CollapseError: if the manifest is missing, damaged, or from a newer version.
    """
    try:
        content = json.loads(manifest.read_text(encoding="utf-8"))
    except OSError:
        raise CollapseError(f"{store}: {missing}") from None
    except ValueError:
        content = None
    if not isinstance(content, dict):
        raise CollapseError(f"{store}: damaged: {manifest.name} is not a manifest; {again}")
    found = content.get("format", FORMAT)
    if not isinstance(found, int) or found > FORMAT:
        raise CollapseError(
            f"{store}: written by a newer version (format {found}, this version reads {FORMAT}): update collapse"
        )
    return content


def damages(store: Path, manifest: Mapping[str, Any]) -> list[str]:
    """Problems with the files of a store, one phrase per file; empty if the store is complete.

    Manifests of format 1 list no files: this compares the total digest then, or nothing if there is no digest.
    """
    found, recorded = tree_files(store), manifest.get("files")
    if recorded is None:
        whole = manifest.get("digest") in (None, digest_of(found))
        return [] if whole else [f"{store}: its files differ from those that its manifest describes"]
    if not isinstance(recorded, dict) or manifest.get("digest") not in (None, digest_of(recorded)):
        return [f"{store}: its manifest contradicts itself"]
    problems = [f"{store / name}: missing" for name in recorded if name not in found]
    problems += [f"{store / name}: damaged" for name in recorded if name in found and found[name] != recorded[name]]
    return problems + [f"{store / name}: not in the manifest" for name in found if name not in recorded]
