"""SentencePiece models: trained here, or obtained from another source."""

import hashlib
import io
import re
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import sentencepiece

from collapse.config.run import DataSpec
from collapse.config.tokens import FileTokenizer, HubTokenizer, TrainedTokenizer
from collapse.corpus import hub
from collapse.corpus.document import Document, Documents
from collapse.corpus.sources import documents
from collapse.corpus.wheels import MISTRAL_COMMON, read_member
from collapse.errors import CollapseError
from collapse.progress import Progress

WHEEL_MEMBER = "mistral_common/data/tokenizer.model.v1"
WHEEL_MEMBER_SHA256 = "dadfd56d766715c61d2ef780a525ab43b8e6da4de6865bda3d95fdef5e134055"


def load(model: bytes, name: str) -> sentencepiece.SentencePieceProcessor:
    """The encoder of a SentencePiece model.

    Args:
        model: content of the model file.
        name: name of the model in messages.

    Raises:
        CollapseError: if the bytes are not a SentencePiece model, or the model has no end-of-sequence piece.
    """
    try:
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    except RuntimeError:
        processor = None
    if processor is None or processor.get_piece_size() == 0:
        raise CollapseError(f"{name}: not a SentencePiece model ({len(model)} bytes)")
    if processor.eos_id() < 0:
        raise CollapseError(f"{name}: the model has no end-of-sequence piece, which separates documents")
    return processor


def train(texts: Iterable[Document], vocab_size: int) -> bytes:
    """A SentencePiece BPE model like that of Llama-2: byte fallback, split digits, no normalization.

    Equal texts give equal bytes.

    Raises:
        CollapseError: if the text is too small for the vocabulary, or has too many different characters.
    """
    # Read all text first: SentencePiece hides errors that its iterator raises.
    lines = [line for document in texts for line in document.text.split("\n") if line]
    model = io.BytesIO()
    try:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(lines),
            model_writer=model,
            model_type="bpe",
            vocab_size=vocab_size,
            unk_id=0,
            bos_id=1,
            eos_id=2,
            pad_id=-1,
            byte_fallback=True,
            split_digits=True,
            allow_whitespace_only_pieces=True,
            normalization_rule_name="identity",
            remove_extra_whitespaces=False,
            max_sentence_length=1 << 24,
            num_threads=1,
            minloglevel=3,
        )
    except RuntimeError as error:
        raise CollapseError(_reason(str(error), vocab_size)) from None
    return model.getvalue()


def _reason(message: str, vocab_size: int) -> str:
    if most := re.search(r"Vocabulary size too high.*?<= (\d+)", message):
        return (
            f"tokens.tokenizer.vocab_size: the corpus is too small for {vocab_size} pieces: it allows at most {most[1]}"
        )
    if least := re.search(r"smaller than required_chars\. \d+ vs (\d+)", message):
        return (
            f"tokens.tokenizer.vocab_size: {vocab_size} pieces cannot cover the characters of the corpus: "
            f"at least {least[1]} are needed"
        )
    return f"tokens.tokenizer: SentencePiece cannot train {vocab_size} pieces on this corpus ({message.strip()})"


def obtain(spec: DataSpec, fetched: Path | None = None) -> bytes:
    """Content of the SentencePiece model that a spec asks for, checked.

    Raises:
        CollapseError: if the model is missing, has the wrong SHA-256, or is not a SentencePiece model.
    """
    tokenizer = spec.tokens.tokenizer
    if isinstance(tokenizer, TrainedTokenizer):
        return train(_first(documents(spec.corpus, fetched), tokenizer.documents), tokenizer.vocab_size)
    wanted: str | None
    if isinstance(tokenizer, FileTokenizer):
        name, wanted = tokenizer.path, tokenizer.sha256
        model = _read(Path(tokenizer.path), "tokens.tokenizer.path")
    elif isinstance(tokenizer, HubTokenizer):
        name, wanted = f"{tokenizer.filename} of {tokenizer.repository}", tokenizer.sha256
        model = hub.file(tokenizer.repository, tokenizer.filename, tokenizer.revision).read_bytes()
    else:
        name, wanted = f"{WHEEL_MEMBER} of {MISTRAL_COMMON.filename}", WHEEL_MEMBER_SHA256
        model = read_member(MISTRAL_COMMON, WHEEL_MEMBER)
    found = hashlib.sha256(model).hexdigest()
    if wanted is not None and found != wanted:
        raise CollapseError(f"{name}: its sha256 is {found} instead of {wanted}; use the right file")
    load(model, name)
    return model


def _first(texts: Documents, count: int) -> Iterator[Document]:
    progress = Progress("reading text for the tokenizer", "documents")
    for document in islice(texts, count):
        yield document
        progress.update(texts.documents, max(texts.fraction or 0, texts.documents / count))


def read_model(path: Path) -> bytes:
    """Content of a model file that the tokenizer stage wrote.

    Raises:
        CollapseError: if there is no such file.
    """
    return _read(path, "tokenizer")


def _read(path: Path, key: str) -> bytes:
    if not path.is_file():
        raise CollapseError(f"{key}: {path} does not exist (looked from {Path.cwd()})")
    return path.read_bytes()
