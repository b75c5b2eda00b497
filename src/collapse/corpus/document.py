"""A document, and the origin of documents."""

from collections.abc import Iterator
from typing import NamedTuple

from collapse.config.base import Section
from collapse.errors import CollapseError


class Document(NamedTuple):
    """One text, as in C4."""

    text: str
    url: str
    """Page that contains the text; decides whether the document is for training or held out."""
    timestamp: str
    """Time of the crawl, ISO 8601; empty if unknown."""


class Attribution(Section):
    """Source and licence of a text."""

    material: str
    licence: str
    url: str


class Documents(Iterator[Document]):
    """The non-empty documents of a corpus, in a fixed order; counts the empty ones.

    Iterating raises `CollapseError` if the corpus cannot be read or contains no text.
    """

    def __init__(self, name: str, records: Iterator[tuple[Document, float | None]]) -> None:
        self.name = name
        """The corpus in words, for messages."""
        self.fraction: float | None = None
        """Share of the corpus that has been read; None if its size is unknown."""
        self.documents = 0
        """Documents returned so far."""
        self.empty = 0
        """Documents skipped so far because they contain only white space."""
        self._records = records

    def __next__(self) -> Document:
        for document, fraction in self._records:
            self.fraction = fraction
            if document.text and not document.text.isspace():
                self.documents += 1
                return document
            self.empty += 1
        if self.documents == 0 and self.empty:
            raise CollapseError(f"{self.name}: all {self.empty} documents are empty; use a corpus with text")
        if self.documents == 0:
            raise CollapseError(f"{self.name}: there is no document in it; use a corpus with text")
        raise StopIteration
