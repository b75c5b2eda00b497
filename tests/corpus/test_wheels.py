import hashlib
import zipfile
from pathlib import Path

import pytest

from collapse.corpus.wheels import MISTRAL_COMMON, Wheel, cache_folder, obtain, read_member
from collapse.errors import CollapseError


def build(folder, content):
    """Build a small wheel that pip accepts; returns its SHA-256."""
    path = folder / "pinned_thing-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("pinned_thing/data.txt", content)
        archive.writestr(
            "pinned_thing-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: pinned-thing\nVersion: 1.0\n"
        )
        archive.writestr("pinned_thing-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nTag: py3-none-any\n")
        archive.writestr("pinned_thing-1.0.dist-info/RECORD", "")
    return hashlib.sha256(path.read_bytes()).hexdigest()


@pytest.fixture
def index(tmp_path, monkeypatch):
    """A folder that pip uses as its only index."""
    folder = tmp_path / "index"
    folder.mkdir()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(folder))
    return folder


@pytest.fixture
def wheel(index):
    return Wheel("pinned-thing", "1.0", build(index, "hello"))


def test_a_second_call_needs_no_index(index, wheel):
    assert read_member(wheel, "pinned_thing/data.txt") == b"hello"
    (index / wheel.filename).unlink()
    assert read_member(wheel, "pinned_thing/data.txt") == b"hello"
    assert [path.name for path in cache_folder().iterdir()] == [wheel.filename]


def test_a_damaged_cache_is_replaced(index, wheel, capfd):
    obtain(wheel).write_bytes(b"damaged")
    capfd.readouterr()
    assert read_member(wheel, "pinned_thing/data.txt") == b"hello"
    assert capfd.readouterr().err == f"downloading {wheel.filename}\n"


def test_a_different_file_with_the_pinned_name_is_rejected(index, wheel):
    build(index, "something else")
    with pytest.raises(CollapseError, match=rf"does not have the pinned sha256 {wheel.sha256} \(pip refused it\)"):
        obtain(wheel)
    assert list(cache_folder().iterdir()) == []


def test_a_wheel_that_pip_accepted_is_checked_again(index, wheel, monkeypatch):
    """The check does not rely on pip."""
    build(index, "something else")
    content = (index / wheel.filename).read_bytes()
    monkeypatch.setattr(
        "collapse.corpus.wheels._download", lambda _, url, output, pooch: Path(output).write_bytes(content)
    )
    with pytest.raises(CollapseError, match=r"does not have the pinned sha256 .* \(it is a different file\)"):
        obtain(wheel)
    assert list(cache_folder().iterdir()) == []


def test_a_wheel_that_cannot_be_downloaded(index):
    missing = Wheel("pinned-thing", "1.0", "0" * 64)
    with pytest.raises(CollapseError, match=r"pinned_thing-1\.0-py3-none-any\.whl could not be downloaded with pip \("):
        obtain(missing)


def test_the_cache_is_below_home_by_default(monkeypatch, tmp_path):
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    assert cache_folder() == tmp_path / ".cache" / "collapse" / "wheels"


def test_the_pinned_tokenizer_wheel_is_one_file_for_all_platforms(wheel_cache):
    assert obtain(MISTRAL_COMMON).name == "mistral_common-1.13.1-py3-none-any.whl"
