"""A document, and what is known about where documents come from."""

from collections.abc import Iterator
from typing import NamedTuple

from collapse.config.base import Section
from collapse.errors import CollapseError


class Document(NamedTuple):
    """One text, as in C4."""

    text: str
    url: str
    """Page that the text is from; decides whether it is trained on or held out."""
    timestamp: str
    """When it was crawled, ISO 8601; empty where unknown."""


class Attribution(Section):
    """Whose text it is, and under which licence."""

    material: str
    licence: str
    url: str


class Documents(Iterator[Document]):
    """The non-empty documents of a corpus, in a fixed order; counts what it passes over.

    Iterating raises `CollapseError` where the corpus cannot be read, or turns out to hold no text at all.
    """

    def __init__(self, name: str, records: Iterator[tuple[Document, float | None]]) -> None:
        self.name = name
        """The corpus in words, for messages."""
        self.fraction: float | None = None
        """Share of the corpus that has been read, where its size is known."""
        self.documents = 0
        """Documents given out so far."""
        self.empty = 0
        """Documents passed over so far because they hold nothing but white space."""
        self._records = records

    def __next__(self) -> Document:
        for document, fraction in self._records:
            self.fraction = fraction
            if document.text and not document.text.isspace():
                self.documents += 1
                return document
            self.empty += 1
        if self.documents == 0 and self.empty:
            raise CollapseError(f"{self.name}: all {self.empty} documents are empty; give a corpus with text in it")
        if self.documents == 0:
            raise CollapseError(f"{self.name}: there is no document in it; give a corpus with text in it")
        raise StopIteration
