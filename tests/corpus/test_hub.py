import hashlib

import pytest

REVISION = "0123456789abcdef0123456789abcdef01234567"


def spec(helpers, corpus, tokenizer=None):
    tokens = {"tokenizer": tokenizer or {"kind": "train", "vocab_size": 320}}
    return type(helpers.spec("x")).model_validate({"corpus": corpus, "tokens": tokens})


@pytest.fixture
def offline(tmp_path):
    return {"HF_HUB_OFFLINE": "1", "HF_HOME": str(tmp_path / "hub")}


def test_an_unreachable_hub_is_one_sentence(tmp_path, helpers, offline):
    data = spec(helpers, {"source": "hub"})
    result = helpers.run("tokenizer", data, tmp_path / "tokenizer.model", **offline)
    assert result.returncode == 1
    assert result.stderr.startswith("error: dataset allenai/c4, subset en, split train, revision 1588ec45")
    assert "the Hugging Face hub cannot be reached (" in result.stderr
    assert "use local files" in result.stderr
    assert result.stderr.count("\n") == 1
    assert not (tmp_path / "tokenizer.model").exists()


def test_an_unreachable_hub_for_the_tokenizer_is_one_sentence(tmp_path, helpers, offline):
    hub = {"kind": "hub", "repository": "some/model", "revision": REVISION, "sha256": "0" * 64}
    data = spec(helpers, {"source": "shards", "files": ["x"]}, hub)
    result = helpers.run("tokenizer", data, tmp_path / "t.model", **offline)
    assert result.returncode == 1
    assert result.stderr.startswith(
        f"error: tokenizer.model of some/model at revision {REVISION}: the Hugging Face hub"
    )
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("matches", [True, False])
def test_a_tokenizer_from_the_hub_is_checked(tmp_path, helpers, offline, matches):
    """The local cache of the hub library replaces the hub."""
    model = helpers.store(tmp_path, helpers.spec(helpers.shard(tmp_path / "s.json.gz", helpers.records(40))))
    content = model.with_suffix(".model").read_bytes()
    snapshot = tmp_path / "hub" / "hub" / "models--some--model" / "snapshots" / REVISION
    snapshot.mkdir(parents=True)
    (snapshot / "tokenizer.model").write_bytes(content)
    digest = hashlib.sha256(content).hexdigest() if matches else "0" * 64
    hub = {"kind": "hub", "repository": "some/model", "revision": REVISION, "sha256": digest}
    out = tmp_path / "out.model"
    data = spec(helpers, {"source": "shards", "files": ["x"]}, hub)
    result = helpers.run("tokenizer", data, out, **offline)
    if matches:
        assert result.returncode == 0, result.stderr
        assert out.read_bytes() == content
    else:
        assert result.returncode == 1
        assert f"tokenizer.model of some/model: its sha256 is {hashlib.sha256(content).hexdigest()}" in result.stderr
        assert not out.exists()


@pytest.fixture
def repository(tmp_path, helpers):
    """A local folder, which `datasets` reads like a repository."""
    folder = tmp_path / "repository"
    folder.mkdir()
    helpers.shard(folder / "train-0.json.gz", helpers.records(30))
    return folder


def test_documents_are_streamed(tmp_path, helpers, offline, repository):
    hub = {"source": "hub", "repository": str(repository), "subset": "default"}
    shards = helpers.spec(repository / "*.gz")
    out = {}
    for name, data in (("hub", spec(helpers, hub)), ("shards", shards)):
        out[name] = tmp_path / f"{name}.model"
        result = helpers.run("tokenizer", data, out[name], **offline)
        assert (result.returncode, result.stderr) == (0, "")
    assert out["hub"].read_bytes() == out["shards"].read_bytes()


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        ({"subset": "klingon"}, "subset klingon, split train"),
        ({"split": "nowhere"}, "split nowhere"),
    ],
)
def test_an_unknown_subset_or_split_is_one_sentence(tmp_path, helpers, offline, repository, change, sentence):
    hub = {"source": "hub", "repository": str(repository), "subset": "default"} | change
    data = spec(helpers, hub)
    result = helpers.run("tokenizer", data, tmp_path / "t.model", **offline)
    assert result.returncode == 1
    assert result.stderr.startswith("error: dataset") and sentence in result.stderr
    assert result.stderr.count("\n") == 1


def test_a_record_without_text_is_named(tmp_path, helpers, offline, repository):
    (repository / "train-0.json.gz").unlink()
    helpers.shard(repository / "train-0.json.gz", [{"content": "words", "url": "u"}])
    data = spec(helpers, {"source": "hub", "repository": str(repository), "subset": "default"})
    result = helpers.run("tokenizer", data, tmp_path / "t.model", **offline)
    assert result.returncode == 1
    assert "record 1: the record has no 'text' (its keys: 'content', 'url')" in result.stderr
