"""The token store: a folder with `train.bin`, `validation.bin` and a manifest that is written last."""

import hashlib
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from collapse.config.base import Section
from collapse.config.run import DataSpec
from collapse.corpus.document import Attribution
from collapse.errors import CollapseError
from collapse.files import sha256_file, write_atomic

Split = Literal["train", "validation"]
Dtype = Literal["uint16", "uint32"]
Tokens: TypeAlias = NDArray[np.unsignedinteger[Any]]
"""Token ids, one-dimensional, EOS after every document."""


def dtype_for(vocab_size: int) -> Dtype:
    """The smaller type of the two that can hold every id of a vocabulary."""
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def _on_disk(dtype: Dtype) -> np.dtype[Any]:
    return np.dtype(dtype).newbyteorder("<")


class SplitManifest(Section):
    """One split of a token store."""

    tokens: int
    documents: int
    sha256: str


class TokenManifest(Section):
    """Content and origin of a token store."""

    spec: DataSpec
    corpus: str
    """The corpus in words."""
    attributions: list[Attribution]
    skipped_empty: int
    """Documents skipped because they contain only white space."""
    tokenizer_sha256: str
    vocab_size: int
    eos_id: int
    dtype: Dtype
    train: SplitManifest
    validation: SplitManifest
    token_frequencies: list[int]
    """Number of occurrences of each id in the train split; one entry per piece of the vocabulary."""


class SplitWriter:
    """Streams one split to a temporary file and renames it when it is complete."""

    def __init__(self, folder: Path, split: Split, dtype: Dtype) -> None:
        self.tokens = 0
        self.documents = 0
        self._path = folder / f"{split}.bin"
        self._partial = folder / f".{split}.bin.partial"
        self._dtype = _on_disk(dtype)
        self._digest = hashlib.sha256()

    def __enter__(self) -> Self:
        self._file = self._partial.open("wb")
        return self

    def append(self, tokens: Tokens, documents: int) -> None:
        """Add the ids of some documents."""
        data = tokens.astype(self._dtype, copy=False).tobytes()
        self._file.write(data)
        self._digest.update(data)
        self.tokens += len(tokens)
        self.documents += documents

    def finish(self) -> SplitManifest:
        """Move the file into place."""
        self._file.close()
        self._partial.replace(self._path)
        return SplitManifest(tokens=self.tokens, documents=self.documents, sha256=self._digest.hexdigest())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._file.close()
        finally:
            self._partial.unlink(missing_ok=True)


@dataclass(frozen=True)
class TokenStore:
    """A finished token store, its splits memory-mapped and read-only."""

    folder: Path
    manifest: TokenManifest
    train: Tokens
    validation: Tokens

    @classmethod
    def open(cls, folder: Path) -> Self:
        """Open a token store.

        Raises:
            CollapseError: if it is missing, unfinished or damaged.
        """
        manifest = read_token_manifest(folder)
        train, validation = (_map(folder, split, manifest) for split in ("train", "validation"))
        return cls(folder, manifest, train, validation)

    def verify(self) -> None:
        """Read all files and compare them with the digests in the manifest.

        Raises:
            CollapseError: if the content of a file has changed.
        """
        for split in ("train", "validation"):
            path = self.folder / f"{split}.bin"
            if sha256_file(path) != getattr(self.manifest, split).sha256:
                raise CollapseError(
                    f"{path} does not have the sha256 of its manifest: delete the folder and tokenize again"
                )


def read_token_manifest(folder: Path) -> TokenManifest:
    """The manifest of a token store.

    Raises:
        CollapseError: if the store is missing or unfinished, or its manifest is damaged.
    """
    path = folder / "manifest.json"
    try:
        return TokenManifest.model_validate_json(path.read_bytes())
    except (FileNotFoundError, NotADirectoryError):
        raise CollapseError(f"{path} does not exist: the token store is missing or unfinished") from None
    except ValidationError:
        raise CollapseError(f"{path} is damaged: delete {folder} and tokenize again") from None


def _map(folder: Path, split: Split, manifest: TokenManifest) -> Tokens:
    path = folder / f"{split}.bin"
    dtype = _on_disk(manifest.dtype)
    tokens: int = getattr(manifest, split).tokens
    expected = tokens * dtype.itemsize
    found = path.stat().st_size if path.is_file() else None
    if found != expected:
        has = "is missing" if found is None else f"has {found} bytes"
        raise CollapseError(f"{path} {has}, but its manifest says {expected}: delete {folder} and tokenize again")
    if tokens == 0:  # an empty file cannot be mapped
        empty: Tokens = np.empty(0, dtype)
        empty.flags.writeable = False
        return empty
    return np.memmap(path, dtype=dtype, mode="r")


def write_manifest(folder: Path, manifest: TokenManifest) -> None:
    """Write the manifest, which marks a token store as finished."""
    write_atomic(folder / "manifest.json", manifest.model_dump_json() + "\n")
