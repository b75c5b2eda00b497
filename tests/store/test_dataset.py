import json

import numpy as np
import pytest
import xarray as xr

from collapse.errors import CollapseError
from collapse.store.dataset import described, load_dataset, manifest_of, publish_dataset, spec_of
from collapse.store.parts import Parts


@pytest.fixture
def data() -> xr.Dataset:
    values = np.array([[1.5, np.nan], [2.0, -3.0]])
    return xr.Dataset({"value": (("kind", "n"), values)}, {"kind": ["a", "longer"], "n": [1, 2]})


@pytest.fixture
def path(data, tmp_path):
    path = tmp_path / "folder" / "made.zarr"
    publish_dataset(data, path, {"seed": 0}, {"code": "abc"})
    return path


def test_a_published_dataset_reads_back_unchanged(data, path):
    read = load_dataset(path)
    xr.testing.assert_equal(read, data)
    assert spec_of(read) == {"seed": 0}
    assert json.loads(read.attrs["provenance"]) == {"code": "abc"}
    assert json.loads(manifest_of(path).read_text())["spec"] == {"seed": 0}
    assert sorted(p.name for p in path.parent.iterdir()) == ["made.json", "made.zarr"]


def test_publishing_again_replaces(data, path):
    publish_dataset(data * 2, path, {"seed": 1}, {})
    assert load_dataset(path)["value"][0, 0] == 3


def test_a_missing_manifest_is_an_unfinished_dataset(path):
    manifest_of(path).unlink()
    with pytest.raises(CollapseError, match=r"made\.zarr: missing or unfinished \(it has no made\.json\)"):
        load_dataset(path)


@pytest.mark.parametrize("damage", ["truncate", "delete", "add", "all", "manifest", "list"])
def test_damage_is_reported(path, damage):
    chunk = next(file for file in sorted(path.rglob("c/*/*")) if file.is_file())
    if damage == "truncate":
        chunk.write_bytes(chunk.read_bytes()[:-1])
    elif damage == "delete":
        chunk.unlink()
    elif damage == "add":
        (path / "extra").touch()
    elif damage == "all":
        for file in path.rglob("*"):
            if file.is_file():
                file.unlink()
    else:
        manifest_of(path).write_text("{" if damage == "manifest" else "[]")
    with pytest.raises(CollapseError, match=r"made\.zarr: damaged: .*; delete it and its manifest, and make it again"):
        load_dataset(path)


def test_an_interrupted_publication_leaves_no_dataset(data, tmp_path, monkeypatch):
    def full(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("collapse.store.dataset.write_atomic", full)
    with pytest.raises(OSError, match="No space"):
        publish_dataset(data, tmp_path / "made.zarr", None, {})
    with pytest.raises(CollapseError, match="missing or unfinished"):
        load_dataset(tmp_path / "made.zarr")


def test_every_variable_must_be_described(data):
    with pytest.raises(KeyError, match="value"):
        described(data, {"n": ("a number", "1", "")})
    described(data, {"value": ("a value", "nats", "Theorem 1"), "n": ("a number", "1", "")})
    assert data["value"].attrs == {"long_name": "a value", "units": "nats", "defined_in": "Theorem 1"}
    assert data["n"].attrs["long_name"] == "a number"


def test_parts_are_complete_or_absent(data, tmp_path):
    parts = Parts(tmp_path / "scratch" / "job")
    assert parts.get("first") is None
    xr.testing.assert_identical(parts.put("first", data), data)
    xr.testing.assert_equal(parts.get("first"), data)
    for file in (parts.folder / "first.zarr").rglob("c/*/*"):
        if file.is_file():
            file.write_bytes(b"")
    assert parts.get("first") is None
    parts.put("first", data)
    assert parts.get("first") is not None
    parts.clear()
    assert not parts.folder.exists()
    parts.clear()
