"""Files that are either complete or absent, and digests to check them."""

import hashlib
import os
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name in the same folder, and rename it when it is complete."""
    path.parent.mkdir(parents=True, exist_ok=True)
    data = content.encode() if isinstance(content, str) else content
    handle, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(data)
        os.chmod(name, 0o644)  # noqa: PTH101 - mkstemp creates private files
        Path(name).replace(path)
    except BaseException:
        Path(name).unlink(missing_ok=True)
        raise


@contextmanager
def naming(path: Path) -> Iterator[None]:
    """Within this context, an OSError without a file name (such as for a full disk) gets the name of this path."""
    try:
        yield
    except OSError as error:
        error.filename = error.filename or str(path)
        raise


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_files(folder: Path) -> dict[str, str]:
    """SHA-256 of every file below a folder, by its relative name.

    Snakemake's hidden timestamp file is not part of the content and is left out.
    """
    paths = (path for path in folder.rglob("*") if path.is_file() and path.name != ".snakemake_timestamp")
    return {path.relative_to(folder).as_posix(): sha256_file(path) for path in paths}


def digest_of(files: Mapping[str, str]) -> str:
    """SHA-256 over the names and digests of `tree_files`, folder by folder in sorted order."""
    total = hashlib.sha256()
    for name in sorted(files, key=lambda name: name.split("/")):
        total.update(f"{name}\0{files[name]}\n".encode())
    return total.hexdigest()


def tree_digest(folder: Path) -> str:
    """SHA-256 over the relative names and contents of all files below a folder."""
    return digest_of(tree_files(folder))
