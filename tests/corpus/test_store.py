import numpy as np
import pytest

from collapse.corpus.store import SplitWriter, TokenStore, dtype_for
from collapse.errors import CollapseError


@pytest.fixture
def folder(tmp_path, helpers):
    return helpers.store(
        tmp_path, helpers.spec(helpers.shard(tmp_path / "s.json.gz", helpers.records(60)), validation_fraction=0.3)
    )


def test_it_opens_mapped_and_read_only(folder):
    store = TokenStore.open(folder)
    assert isinstance(store.train, np.memmap)
    assert store.train.dtype == np.dtype("<u2")
    with pytest.raises(ValueError, match="read-only"):
        store.train[0] = 1
    store.verify()


@pytest.mark.parametrize(("vocab_size", "dtype"), [(320, "uint16"), (65_536, "uint16"), (65_537, "uint32")])
def test_the_type_fits_the_vocabulary(vocab_size, dtype):
    assert dtype_for(vocab_size) == dtype
    assert vocab_size - 1 <= np.iinfo(dtype).max


def test_wide_ids_are_kept(tmp_path):
    with SplitWriter(tmp_path, "train", "uint32") as writer:
        writer.append(np.array([1, 70_000, 2], np.uint32), 1)
        assert not (tmp_path / "train.bin").exists()
        manifest = writer.finish()
    assert (manifest.tokens, manifest.documents) == (3, 1)
    assert np.fromfile(tmp_path / "train.bin", "<u4").tolist() == [1, 70_000, 2]


@pytest.mark.parametrize("split", ["train", "validation"])
def test_a_file_of_the_wrong_size_is_named(folder, split):
    path = folder / f"{split}.bin"
    content = path.read_bytes()
    path.write_bytes(content[:-1])
    with pytest.raises(CollapseError, match=rf"{split}\.bin has {len(content) - 1} bytes, but its manifest says"):
        TokenStore.open(folder)
    path.unlink()
    with pytest.raises(CollapseError, match=rf"{split}\.bin is missing"):
        TokenStore.open(folder)


def test_changed_content_is_found_by_verify(folder):
    path = folder / "train.bin"
    content = bytearray(path.read_bytes())
    content[10] ^= 1
    path.write_bytes(content)
    store = TokenStore.open(folder)
    with pytest.raises(CollapseError, match=r"train\.bin does not have the sha256 of its manifest"):
        store.verify()


def test_a_missing_or_damaged_manifest_is_named(folder, tmp_path):
    with pytest.raises(CollapseError, match=r"manifest\.json does not exist: the token store is missing or unfinished"):
        TokenStore.open(tmp_path / "nowhere")
    path = folder / "manifest.json"
    path.write_text(path.read_text()[:-50])
    with pytest.raises(CollapseError, match=r"manifest\.json is damaged"):
        TokenStore.open(folder)
