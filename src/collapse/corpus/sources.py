"""One interface to all text: the documents of a corpus, whatever its source."""

from pathlib import Path

from collapse.config.corpus import CorpusConfig, HubCorpus, ShardCorpus
from collapse.corpus import hub, sample, shards
from collapse.corpus.document import Attribution, Documents
from collapse.errors import CollapseError


def documents(corpus: CorpusConfig, fetched: Path | None = None) -> Documents:
    """An iterator over the non-empty documents of a corpus, in a fixed order.

    Args:
        corpus: where the text comes from.
        fetched: folder of the fetched corpus; only the `sample` source needs it.

    Raises:
        CollapseError: at once or during the iteration, if the text is missing, damaged or unreachable.
    """
    if isinstance(corpus, HubCorpus):
        return Documents(describe(corpus), hub.read(corpus))
    if isinstance(corpus, ShardCorpus):
        return Documents(describe(corpus), shards.read(shards.resolve(corpus.files)))
    return Documents(describe(corpus), shards.read(sample.open_fetched(_given(fetched))))


def describe(corpus: CorpusConfig) -> str:
    """The corpus in words, for messages and manifests."""
    if isinstance(corpus, HubCorpus):
        return f"dataset {corpus.repository} ({corpus.subset}, {corpus.split}) at revision {corpus.revision}"
    if isinstance(corpus, ShardCorpus):
        return f"shards {', '.join(corpus.files)}"
    return "sample corpus"


def attributions(corpus: CorpusConfig, fetched: Path | None = None) -> list[Attribution]:
    """Sources and licences of a corpus, as far as they are known."""
    if isinstance(corpus, HubCorpus):
        licence = "ODC-BY 1.0" if corpus.repository == "allenai/c4" else "as stated on its page"
        url = f"https://huggingface.co/datasets/{corpus.repository}"
        return [Attribution(material=f"dataset {corpus.repository}", licence=licence, url=url)]
    if isinstance(corpus, ShardCorpus):
        return [Attribution(material="local shards", licence="not stated; each document names its url", url="")]
    return sample.read_manifest(_given(fetched)).attributions


def _given(fetched: Path | None) -> Path:
    if fetched is None:
        raise CollapseError("the sample corpus is missing: fetch it first with `collapse corpus`")
    return fetched
