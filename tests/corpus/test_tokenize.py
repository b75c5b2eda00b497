import hashlib
from itertools import pairwise

import numpy as np
import pytest
import sentencepiece

from collapse.config.corpus import SampleCorpus
from collapse.config.run import DataSpec
from collapse.corpus import tokenize as stage
from collapse.corpus.document import Document
from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError


@pytest.fixture(scope="module")
def shard(tmp_path_factory, helpers):
    return helpers.shard(tmp_path_factory.mktemp("shard") / "s.json.gz", helpers.records(200, pages=80))


@pytest.fixture(scope="module")
def whole(tmp_path_factory, helpers, shard):
    """A store of the whole corpus; its tokenizer is beside it."""
    folder = tmp_path_factory.mktemp("whole")
    return helpers.store(folder, helpers.spec(shard, validation_fraction=0.2))


def split(tokens, eos=2):
    ends = np.flatnonzero(tokens == eos) + 1
    return [tokens[a : b - 1].tolist() for a, b in pairwise([0, *ends.tolist()])]


def test_the_store_holds_every_document_once_with_eos_after_it(helpers, whole):
    store = TokenStore.open(whole)
    processor = sentencepiece.SentencePieceProcessor(model_file=str(whole.with_suffix(".model")))
    records = helpers.records(200, pages=80)
    train = [r["text"] for r in records if not stage.is_validation(r["url"], 0.2)]
    held_out = [r["text"] for r in records if stage.is_validation(r["url"], 0.2)]
    assert train and held_out
    assert [processor.decode(ids) for ids in split(store.train)] == train
    assert [processor.decode(ids) for ids in split(store.validation)] == held_out
    assert store.train[-1] == store.validation[-1] == store.manifest.eos_id == 2


def test_the_counts_of_the_manifest_are_right(whole, helpers, shard):
    store = TokenStore.open(whole)
    manifest = store.manifest
    assert manifest.spec == helpers.spec(shard, validation_fraction=0.2)
    assert (manifest.dtype, manifest.vocab_size, manifest.skipped_empty) == ("uint16", 320, 0)
    assert manifest.tokenizer_sha256 == hashlib.sha256(whole.with_suffix(".model").read_bytes()).hexdigest()
    assert manifest.train.documents + manifest.validation.documents == 200
    assert (manifest.train.tokens, manifest.validation.tokens) == (len(store.train), len(store.validation))
    assert manifest.train.sha256 == hashlib.sha256((whole / "train.bin").read_bytes()).hexdigest()
    assert manifest.token_frequencies == np.bincount(store.train, minlength=320).tolist()


def test_the_bytes_do_not_depend_on_batches_or_threads(tmp_path, helpers, shard, whole, monkeypatch):
    monkeypatch.setattr(stage, "BATCH_CHARACTERS", 777)
    again = helpers.store(tmp_path, helpers.spec(shard, validation_fraction=0.2), threads=2)
    for name in ("train.bin", "validation.bin", "manifest.json"):
        assert (again / name).read_bytes() == (whole / name).read_bytes()


@pytest.mark.parametrize("batch", [500, 1 << 20])
@pytest.mark.parametrize("limit", [1, 1000, 3333])
def test_max_tokens_cuts_exactly_for_every_batch_size(tmp_path, helpers, shard, whole, monkeypatch, limit, batch):
    monkeypatch.setattr(stage, "BATCH_CHARACTERS", batch)
    spec = helpers.spec(shard, validation_fraction=0.2, max_tokens=limit)
    manifest = stage.tokenize(spec, whole.with_suffix(".model"), tmp_path / "t")
    store, everything = TokenStore.open(tmp_path / "t"), TokenStore.open(whole)
    assert manifest.train.tokens == limit
    np.testing.assert_array_equal(store.train, everything.train[:limit])
    np.testing.assert_array_equal(store.validation, everything.validation[: len(store.validation)])
    assert manifest.train.documents == int((everything.train[: limit - 1] == 2).sum()) + 1
    assert sum(manifest.token_frequencies) == limit
    held_out = [stage.is_validation(record["url"], 0.2) for record in helpers.records(200, pages=80)]
    last = np.flatnonzero(~np.array(held_out))[manifest.train.documents - 1]
    assert manifest.validation.documents == sum(held_out[:last]), "the store keeps nothing after the cut"


def test_a_limit_above_the_corpus_takes_all_of_it(tmp_path, helpers, shard, whole):
    spec = helpers.spec(shard, validation_fraction=0.2, max_tokens=10**9)
    assert (
        stage.tokenize(spec, whole.with_suffix(".model"), tmp_path / "t").train == TokenStore.open(whole).manifest.train
    )


def test_each_page_is_in_one_split_and_the_share_is_right():
    urls = [f"https://example.org/{i}" for i in range(20_000)]
    held_out = sum(stage.is_validation(url, 0.02) for url in urls)
    assert abs(held_out / len(urls) - 0.02) < 0.004
    assert not any(stage.is_validation(url, 0.0) for url in urls)
    assert all(stage.is_validation(url, 0.5) for url in urls if stage.is_validation(url, 0.02))


def test_nothing_held_out_is_an_empty_split(tmp_path, helpers, shard, whole):
    stage.tokenize(helpers.spec(shard, validation_fraction=0.0), whole.with_suffix(".model"), tmp_path / "t")
    store = TokenStore.open(tmp_path / "t")
    assert (len(store.validation), store.manifest.validation.documents) == (0, 0)
    assert (tmp_path / "t" / "validation.bin").read_bytes() == b""


def test_everything_held_out_is_an_error(tmp_path, helpers, whole):
    url = next(f"u{i}" for i in range(100) if stage.is_validation(f"u{i}", 0.5))
    path = helpers.shard(tmp_path / "s.json.gz", [{"text": "some words", "url": url}])
    with pytest.raises(CollapseError, match=r"all 1 documents are held out by tokens\.validation_fraction = 0\.5"):
        stage.tokenize(helpers.spec(path, validation_fraction=0.5), whole.with_suffix(".model"), tmp_path / "t")
    assert list((tmp_path / "t").iterdir()) == []


def test_empty_documents_are_counted(tmp_path, helpers, whole):
    records = [*helpers.records(5), {"text": " ", "url": "u"}, {"text": "", "url": "u"}]
    spec = helpers.spec(helpers.shard(tmp_path / "s.json.gz", records), validation_fraction=0.0)
    manifest = stage.tokenize(spec, whole.with_suffix(".model"), tmp_path / "t")
    assert (manifest.train.documents, manifest.skipped_empty) == (5, 2)


def test_a_failure_leaves_no_store_and_no_partial_file(tmp_path, helpers, whole):
    out = tmp_path / "t"
    good = helpers.shard(tmp_path / "s.json.gz", helpers.records(50))
    stage.tokenize(helpers.spec(good), whole.with_suffix(".model"), out)
    good.write_bytes(good.read_bytes()[:-20])
    with pytest.raises(CollapseError, match="truncated"):
        stage.tokenize(helpers.spec(good), whole.with_suffix(".model"), out)
    assert sorted(path.name for path in out.iterdir()) == ["train.bin", "validation.bin"]
    with pytest.raises(CollapseError, match="missing or unfinished"):
        TokenStore.open(out)


def test_batched_keeps_order_and_size():
    texts = [Document("x" * size, str(index), "") for index, size in enumerate([10, stage.BATCH_CHARACTERS, 5, 5])]
    batches = list(stage.batched(texts))
    assert [document for batch in batches for document in batch] == texts
    assert [len(batch) for batch in batches] == [2, 2]


def test_a_missing_tokenizer(tmp_path, helpers, shard):
    result = helpers.run("tokenize", helpers.spec(shard), tmp_path / "u", tokenizer=tmp_path / "none")
    assert result.returncode == 1
    assert result.stderr.startswith("error: tokenizer: ") and "does not exist" in result.stderr


def test_a_full_disk(tmp_path, helpers, shard, whole):
    out = tmp_path / "t"
    out.mkdir()
    (out / ".train.bin.partial").symlink_to("/dev/full")
    result = helpers.run("tokenize", helpers.spec(shard), out, tokenizer=whole.with_suffix(".model"))
    assert result.returncode == 1
    assert "the disk is full" in result.stderr and "Traceback" not in result.stderr
    assert list(out.iterdir()) == []


def test_the_sample_corpus_with_the_tokenizer_of_the_default_config(tmp_path, helpers, sample_corpus):
    spec = DataSpec.model_validate(
        {"corpus": SampleCorpus(source="sample"), "tokens": {"tokenizer": {"kind": "train", "vocab_size": 2048}}}
    )
    model = tmp_path / "t" / "tokenizer.model"
    assert helpers.run("tokenizer", spec, model, sample_corpus).returncode == 0
    assert helpers.run("tokenize", spec, tmp_path / "t", sample_corpus, model).returncode == 0
    store = TokenStore.open(tmp_path / "t")
    store.verify()
    assert store.manifest.train.documents + store.manifest.validation.documents == 13_565
    assert store.manifest.validation.documents > 200
    assert len(store.train) == pytest.approx(3.29e6, rel=0.01)
    p = np.array(store.manifest.token_frequencies) / len(store.train)
    assert -(p[p > 0] * np.log(p[p > 0])).sum() == pytest.approx(6.42, abs=0.02)
