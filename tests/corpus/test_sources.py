import subprocess
import sys

from collapse.config.corpus import HubCorpus
from collapse.corpus.sources import attributions, describe


def test_a_hub_corpus_is_described_and_attributed():
    corpus = HubCorpus(source="hub")
    assert describe(corpus) == f"dataset allenai/c4 (en, train) at revision {corpus.revision}"
    assert [entry.licence for entry in attributions(corpus)] == ["ODC-BY 1.0"]
    other = HubCorpus(source="hub", repository="some/data", revision="abc")
    assert [entry.url for entry in attributions(other)] == ["https://huggingface.co/datasets/some/data"]


def test_what_training_imports_needs_no_text_libraries():
    heavy = {"torch", "datasets", "sentencepiece", "huggingface_hub", "pandas"}
    code = (
        "import sys, collapse.corpus.store, collapse.corpus.batches, collapse.corpus.frequencies; "
        f"print(sorted({heavy!r} & set(sys.modules)))"
    )
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"


def test_local_text_needs_no_hub_libraries():
    heavy = {"torch", "datasets", "huggingface_hub"}
    code = f"import sys, collapse.corpus.tokenize; print(sorted({heavy!r} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
