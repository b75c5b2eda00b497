"""Shards shaped like C4's: gzipped JSON lines with `text`, `timestamp` and `url`."""

import glob
import gzip
import io
import json
import zlib
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

from collapse.corpus.document import Document
from collapse.errors import CollapseError


def resolve(patterns: Sequence[str]) -> list[Path]:
    """The files that match paths and globs, without duplicates, sorted.

    Raises:
        CollapseError: if a path is not a file, or a glob matches no file.
    """
    found: set[Path] = set()
    for pattern in patterns:
        is_glob = glob.has_magic(pattern)
        matches = _glob(pattern) if is_glob else [Path(pattern)]
        files = [path for path in matches if path.is_file()]
        if not files and is_glob:
            raise CollapseError(f"corpus.files: no file matches {pattern!r} (looked from {Path.cwd()})")
        if not files and matches[0].is_dir():
            raise CollapseError(f"corpus.files: {pattern} is a folder; list its files, such as {pattern}/*.json.gz")
        if not files:
            raise CollapseError(f"corpus.files: {pattern} does not exist (looked from {Path.cwd()})")
        found.update(files)
    return sorted(found)


def _glob(pattern: str) -> list[Path]:
    return [Path(match) for match in glob.glob(pattern, recursive=True)]  # noqa: PTH207 - patterns may be absolute


def read(paths: Sequence[Path]) -> Iterator[tuple[Document, float]]:
    """Every document of the shards in order, with the share of all bytes read so far.

    Raises:
        CollapseError: if a shard is damaged; names the file and the line.
    """
    total = sum(path.stat().st_size for path in paths)
    before = 0
    for path in paths:
        if path.stat().st_size == 0:
            raise CollapseError(f"{path}: the shard is an empty file; download it again")
        number = 0
        with path.open("rb") as compressed:
            try:
                with gzip.open(compressed) as lines:
                    for number, line in enumerate(lines, start=1):
                        if line.strip():
                            yield parse(line, path, number), (before + compressed.tell()) / total
            except EOFError:
                raise CollapseError(
                    f"{path}: the gzip stream ends early after line {number}: truncated shard; download it again"
                ) from None
            except (gzip.BadGzipFile, zlib.error) as error:
                raise CollapseError(
                    f"{path}: not readable as gzip after line {number} ({error}): damaged shard; download it again"
                ) from None
        before += path.stat().st_size


def parse(line: bytes, path: Path, number: int) -> Document:
    """The document of one line.

    Raises:
        CollapseError: if the line is not UTF-8, not JSON, or not a record with `text` and `url`.
    """
    where = f"{path}, line {number}"
    try:
        record = json.loads(line.rstrip(b"\r\n").decode("utf-8"))
    except UnicodeDecodeError as error:
        raise CollapseError(f"{where}: not valid UTF-8 at byte {error.start} of the line ({error.reason})") from None
    except json.JSONDecodeError as error:
        raise CollapseError(f"{where}: not valid JSON at character {error.pos} of the line ({error.msg})") from None
    except RecursionError:
        raise CollapseError(f"{where}: not a record with text and url: the JSON is nested too deeply") from None
    if not isinstance(record, dict):
        raise CollapseError(f"{where}: should be a JSON object with text and url (got {type(record).__name__})")
    return document(record, where)


def document(record: dict[str, object], where: str) -> Document:
    """The document of a C4-shaped record.

    Raises:
        CollapseError: if `text` or `url` is missing or cannot be encoded as UTF-8.
    """
    for key in ("text", "url"):
        if key not in record:
            raise CollapseError(f"{where}: the record has no {key!r} (its keys: {', '.join(map(repr, record))})")
        value = record[key]
        if not isinstance(value, str):
            raise CollapseError(f"{where}: {key!r} should be a string (got {type(value).__name__})")
        if not value.isascii():
            try:
                value.encode()
            except UnicodeEncodeError:
                raise CollapseError(f"{where}: {key!r} contains half a surrogate pair, which is not text") from None
    timestamp = record.get("timestamp")
    return Document(str(record["text"]), str(record["url"]), "" if timestamp is None else str(timestamp))


def write(documents: Iterable[Document]) -> bytes:
    """Content of a shard; equal documents give equal bytes."""
    buffer = io.BytesIO()
    with gzip.GzipFile(filename="", mode="wb", fileobj=buffer, mtime=0) as file:
        for document in documents:
            file.write(json.dumps(document._asdict(), ensure_ascii=False).encode() + b"\n")
    return buffer.getvalue()
