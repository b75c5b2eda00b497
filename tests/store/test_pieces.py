"""Datasets too large for memory: written piece by piece, read on use; deleted parts."""

import numpy as np
import pytest
import xarray as xr

from collapse.errors import CollapseError
from collapse.store.dataset import load_dataset, manifest_of, open_dataset, publish_pieces, spec_of
from collapse.store.parts import Parts


def pieces():
    for layer in range(1, 4):
        values = np.arange(4, dtype=np.float32) + 10 * layer
        piece = xr.Dataset({"sum": (("layer", "entry"), values[None])}, {"layer": [layer], "kind": ["text"]})
        piece["sum"].attrs["long_name"] = "a sum"
        piece["sum"].encoding["compressors"] = None
        yield piece


def test_pieces_make_one_dataset(tmp_path):
    publish_pieces(pieces(), "layer", tmp_path / "whole.zarr", {"n": 1}, {"code": "abc"})
    whole = xr.concat(list(pieces()), "layer", data_vars="minimal")
    for read in (load_dataset, open_dataset):
        data = read(tmp_path / "whole.zarr")
        xr.testing.assert_equal(data, whole)
        assert data["sum"].attrs == {"long_name": "a sum"}
        assert spec_of(data) == {"n": 1}
    assert data["sum"].encoding["chunks"] == (1, 4)


def test_nothing_is_published_before_the_last_piece(tmp_path):
    def broken():
        yield from list(pieces())[:2]
        raise CollapseError("damaged")

    publish_pieces(pieces(), "layer", tmp_path / "whole.zarr", {}, {})
    with pytest.raises(CollapseError, match="damaged"):
        publish_pieces(broken(), "layer", tmp_path / "whole.zarr", {}, {})
    assert not manifest_of(tmp_path / "whole.zarr").exists()
    with pytest.raises(CollapseError, match="missing or unfinished"):
        open_dataset(tmp_path / "whole.zarr")


def test_drop_deletes_single_parts(tmp_path):
    parts = Parts(tmp_path)
    for name in ("a", "b"):
        parts.put(name, next(pieces()))
    parts.drop("a")
    parts.drop("c")
    assert parts.get("a") is None
    assert sorted(path.name for path in tmp_path.iterdir()) == ["b.json", "b.zarr"]
