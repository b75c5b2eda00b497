import gzip
import json

import pytest

from collapse.corpus import shards
from collapse.corpus.document import Document
from collapse.corpus.sources import documents
from collapse.errors import CollapseError


def read(helpers, *files):
    return list(documents(helpers.spec(*files).corpus))


def test_globs_and_paths_are_read_once_in_sorted_order(tmp_path, helpers):
    records = helpers.records(6)
    for index in (2, 0, 1):
        helpers.shard(tmp_path / f"c4-{index}.json.gz", records[2 * index : 2 * index + 2])
    found = read(helpers, tmp_path / "c4-2.json.gz", tmp_path / "c4-*.json.gz")
    assert [document._asdict() for document in found] == records


def test_relative_and_recursive_globs(tmp_path, helpers, monkeypatch):
    (tmp_path / "a" / "b").mkdir(parents=True)
    helpers.shard(tmp_path / "a" / "b" / "x.json.gz", helpers.records(3))
    monkeypatch.chdir(tmp_path)
    assert len(read(helpers, "**/*.json.gz")) == 3


def test_empty_documents_are_skipped_and_counted(tmp_path, helpers):
    records = helpers.records(4)
    records[1]["text"] = ""
    records[3]["text"] = " \n\t"
    texts = documents(helpers.spec(helpers.shard(tmp_path / "s.json.gz", records)).corpus)
    assert [document.text for document in texts] == [records[0]["text"], records[2]["text"]]
    assert (texts.documents, texts.empty, texts.fraction) == (2, 2, 1.0)


def test_a_record_needs_no_timestamp_and_may_have_more_keys(tmp_path, helpers):
    path = helpers.shard(tmp_path / "s.json.gz", [{"text": "é 😀", "url": "u", "language": "en"}])
    assert read(helpers, path) == [Document("é 😀", "u", "")]


def test_written_shards_read_back_and_their_bytes_repeat(tmp_path):
    written = [Document("one\ntwo ü", "u1", "t"), Document("three", "u2", "")]
    content = shards.write(written)
    assert content == shards.write(written)
    path = tmp_path / "s.json.gz"
    path.write_bytes(content)
    assert [document for document, _ in shards.read([path])] == written


def record(**values):
    return json.dumps({"text": "some words", "url": "u"} | values).encode()


GOOD = record()

BAD_LINES = [
    pytest.param(b'{"text": "caf\xe9", "url": "u"}', r"line 3: not valid UTF-8 at byte 13", id="utf8"),
    pytest.param(b'{"text": "some', r"line 3: not valid JSON at character 9 of the line", id="json"),
    pytest.param(b'["text"]', r"line 3: should be a JSON object with text and url \(got list\)", id="list"),
    pytest.param(b"[" * 100_000, r"line 3: .*nested too deeply", id="nested"),
    pytest.param(b'{"url": "u"}', r"line 3: the record has no 'text' \(its keys: 'url'\)", id="no-text"),
    pytest.param(b'{"text": "t"}', r"line 3: the record has no 'url'", id="no-url"),
    pytest.param(record(text=None), r"line 3: 'text' should be a string \(got NoneType\)", id="null"),
    pytest.param(record(url=7), r"line 3: 'url' should be a string \(got int\)", id="number"),
    pytest.param(record(text="\ud800"), r"line 3: 'text' contains half a surrogate pair", id="surrogate"),
]


@pytest.mark.parametrize(("line", "sentence"), BAD_LINES)
def test_a_bad_line_is_named(tmp_path, helpers, line, sentence):
    path = tmp_path / "bad.json.gz"
    path.write_bytes(gzip.compress(b"\n".join([GOOD, b"", line, GOOD])))
    with pytest.raises(CollapseError, match=rf"bad\.json\.gz, {sentence}"):
        read(helpers, path)


def truncated(good):
    return good[: len(good) // 2]


def flipped(good):
    return good[:40] + bytes([good[40] ^ 0xFF]) + good[41:]


BAD_FILES = [
    pytest.param(truncated, r"ends early after line \d+: truncated shard", id="truncated"),
    pytest.param(lambda good: good[:-4], r"ends early after line 300: truncated shard", id="no-trailer"),
    pytest.param(flipped, r"not readable as gzip after line \d+ .*damaged shard", id="flipped-bit"),
    pytest.param(lambda good: good + b"garbage", r"not readable as gzip after line 300", id="trailing-garbage"),
    pytest.param(lambda good: GOOD, r"not readable as gzip after line 0 \(Not a gzipped file", id="not-gzip"),
    pytest.param(lambda good: b"", r"the shard is an empty file", id="empty-file"),
    pytest.param(lambda good: gzip.compress(b""), r"there is no document in it", id="no-document"),
    pytest.param(lambda good: gzip.compress(record(text=" ") + b"\n" + record(text="")), r"all 2 documents are empty"),
]


@pytest.mark.parametrize(("damage", "sentence"), BAD_FILES)
def test_a_bad_file_is_named(tmp_path, helpers, damage, sentence):
    path = helpers.shard(tmp_path / "bad.json.gz", helpers.records(300))
    path.write_bytes(damage(path.read_bytes()))
    with pytest.raises(CollapseError, match=rf"bad\.json\.gz: .*{sentence}|bad\.json\.gz: {sentence}"):
        read(helpers, path)


def test_missing_files(tmp_path, helpers):
    with pytest.raises(CollapseError, match=r"corpus\.files: .*none\.json\.gz does not exist"):
        read(helpers, tmp_path / "none.json.gz")
    with pytest.raises(CollapseError, match=r"corpus\.files: no file matches '.*\*\.gz'"):
        read(helpers, tmp_path / "*.gz")
    with pytest.raises(CollapseError, match=r"is a folder; list its files"):
        read(helpers, tmp_path)
