"""Files that are either whole or absent, and digests to tell."""

import hashlib
import os
import tempfile
from pathlib import Path


def write_atomic(path: Path, content: str | bytes) -> None:
    """Write a file under a temporary name beside its place and move it there once it is whole."""
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


def sha256_file(path: Path) -> str:
    """SHA-256 of a file's bytes, hexadecimal."""
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def tree_digest(folder: Path) -> str:
    """SHA-256 over the relative names and contents of all files below a folder, in sorted order.

    Snakemake's own hidden timestamp file is no part of the content and is left out.
    """
    total = hashlib.sha256()
    for path in sorted(p for p in folder.rglob("*") if p.is_file() and p.name != ".snakemake_timestamp"):
        total.update(f"{path.relative_to(folder).as_posix()}\0{sha256_file(path)}\n".encode())
    return total.hexdigest()
