import gzip
import json
import re
from collections import Counter

import pytest

from collapse.config.corpus import SampleCorpus
from collapse.corpus import sample
from collapse.corpus.sources import attributions, documents
from collapse.errors import CollapseError

SPEC = SampleCorpus(source="sample")


@pytest.fixture(scope="module")
def texts(sample_corpus):
    return list(documents(SPEC, sample_corpus))


def test_size_and_cleanliness(texts, sample_corpus):
    manifest = sample.read_manifest(sample_corpus)
    assert len(texts) == manifest.documents == sum(shard.documents for shard in manifest.shards) == 13_565
    assert sum(len(document.text) for document in texts) == manifest.characters == 9_513_263
    assert all(len(document.text) >= 100 for document in texts)
    assert len({re.sub(r"\W", "", document.text).casefold() for document in texts}) == len(texts)
    assert not any("<doc" in document.text or "``" in document.text for document in texts)


def test_every_document_names_its_source(texts):
    kinds = Counter(document.url.split("/")[2] for document in texts)
    assert set(kinds) == {"en.wikipedia.org", "pypi.org"}
    assert kinds["pypi.org"] == 466
    pages = Counter(document.url for document in texts)
    assert pages["https://en.wikipedia.org/wiki/Home_Run_Derby"] >= 1
    assert max(pages.values()) > 1, "passages of one page share its url, so that they stay in the same split"


def test_licences_are_stated(sample_corpus):
    stated = {entry.licence for entry in attributions(SPEC, sample_corpus)}
    assert stated == {"CC BY-SA 4.0", "CC BY-SA 3.0", "ODC-BY 1.0"}


def test_the_shards_are_shaped_like_c4(sample_corpus):
    with gzip.open(sample_corpus / "shard-00000.json.gz", "rt", encoding="utf-8") as lines:
        assert set(json.loads(next(lines))) == {"text", "url", "timestamp"}


def test_first_documents_are_a_prefix_and_a_mix(texts, tmp_path, wheel_cache):
    spec = SampleCorpus(source="sample", documents=300)
    sample.write(spec, tmp_path / "a")
    sample.write(spec, tmp_path / "b")
    found = list(documents(spec, tmp_path / "a"))
    assert found == texts[:300]
    assert {document.url.split("/")[2] for document in found} == {"en.wikipedia.org", "pypi.org"}
    for path in (tmp_path / "a").iterdir():
        assert path.read_bytes() == (tmp_path / "b" / path.name).read_bytes()


def test_damage_is_named(tmp_path, wheel_cache):
    folder = tmp_path / "c"
    sample.write(SampleCorpus(source="sample", documents=20), folder)
    shard = folder / "shard-00000.json.gz"
    content = shard.read_bytes()
    shard.write_bytes(content[:-1])
    with pytest.raises(CollapseError, match=r"shard-00000\.json\.gz does not have the sha256 of the manifest"):
        documents(SPEC, folder)
    shard.unlink()
    with pytest.raises(CollapseError, match=r"shard-00000\.json\.gz is missing"):
        documents(SPEC, folder)
    (folder / "manifest.json").write_text("{")
    with pytest.raises(CollapseError, match=r"manifest\.json is damaged"):
        documents(SPEC, folder)
    (folder / "manifest.json").unlink()
    with pytest.raises(CollapseError, match=r"manifest\.json does not exist: the corpus was not fetched"):
        documents(SPEC, folder)
    with pytest.raises(CollapseError, match=r"the sample corpus is missing: fetch it first"):
        documents(SPEC, None)
