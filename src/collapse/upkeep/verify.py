"""Checks that the finished stores of a results folder have not changed since they were written."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from collapse.corpus import sample
from collapse.corpus.store import TokenManifest, read_token_manifest
from collapse.errors import CollapseError
from collapse.files import sha256_file
from collapse.store import dataset, read
from collapse.store.manifest import damages


class Verified(NamedTuple):
    """A finished store: a run, a dataset, a token store or a corpus."""

    path: Path
    problems: list[str]
    """One phrase per file that is damaged, missing or unexpected; empty if the store is complete."""


def verify(results: Path) -> Iterator[Verified]:
    """Check every finished store of a results folder by computing its digests again.

    Args:
        results: `results/<name>`.

    Raises:
        CollapseError: if the folder has no finished store.
    """
    stores = [(manifest, check) for pattern, check in _KINDS.items() for manifest in sorted(results.glob(pattern))]
    if not stores:
        raise CollapseError(f"{results}: nothing finished here; use a results folder, such as results/laptop")
    for manifest, check in stores:
        try:
            yield Verified(manifest, check(manifest))
        except CollapseError as error:
            yield Verified(manifest, [str(error)])


def _run(manifest: Path) -> list[str]:
    return damages(manifest.parent / read.STORE, read.run_manifest(manifest.parent))


def _dataset(manifest: Path) -> list[str]:
    store = manifest.with_suffix(".zarr")
    return damages(store, dataset.dataset_manifest(store))


def _tokens(manifest: Path) -> list[str]:
    content: TokenManifest = read_token_manifest(manifest.parent)
    digests = {
        "tokenizer.model": content.tokenizer_sha256,
        "train.bin": content.train.sha256,
        "validation.bin": content.validation.sha256,
    }
    return _differences(manifest.parent, digests)


def _corpus(manifest: Path) -> list[str]:
    content = sample.read_manifest(manifest.parent)
    return _differences(manifest.parent, {shard.name: shard.sha256 for shard in content.shards})


def _differences(folder: Path, digests: dict[str, str]) -> list[str]:
    paths = {folder / name: digest for name, digest in digests.items()}
    missing = [f"{path}: missing" for path in paths if not path.is_file()]
    return missing + [f"{path}: damaged" for path, digest in paths.items() if _differs(path, digest)]


def _differs(path: Path, digest: str) -> bool:
    return path.is_file() and sha256_file(path) != digest


_KINDS: dict[str, Callable[[Path], list[str]]] = {
    "corpus/*/manifest.json": _corpus,
    "tokens/*/manifest.json": _tokens,
    "runs/*/manifest.json": _run,
    "probes/*.json": _dataset,
    "probes/slices/*.json": _dataset,
    "theory/*.json": _dataset,
}
"""Patterns of the manifests of finished stores, and the function that checks each kind."""
