"""Tokenization: writes the documents of a corpus to a token store."""

import hashlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from collapse.config.run import DataSpec
from collapse.corpus.document import Document
from collapse.corpus.sources import attributions, describe, documents
from collapse.corpus.store import Dtype, SplitWriter, TokenManifest, Tokens, dtype_for, write_manifest
from collapse.corpus.tokenizer import load, read_model
from collapse.errors import CollapseError
from collapse.progress import Progress

BATCH_CHARACTERS = 1 << 20

Ids: TypeAlias = NDArray[np.int32]


def is_validation(url: str, fraction: float) -> bool:
    """Whether the documents of a url are held out; depends only on the SHA-256 of the url, so it is always the same."""
    return int.from_bytes(hashlib.sha256(url.encode()).digest()[:8]) < fraction * 2**64


def batched(texts: Iterable[Document]) -> Iterator[list[Document]]:
    """Lists of documents of about `BATCH_CHARACTERS` characters each."""
    batch: list[Document] = []
    size = 0
    for document in texts:
        batch.append(document)
        size += len(document.text)
        if size >= BATCH_CHARACTERS:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def divide(encoded: list[Ids], held: list[bool], room: int | None) -> tuple[list[Ids], list[Ids]]:
    """Split encoded documents into two ordered lists: for training, and held out.

    If there is room for only `room` more training tokens, cut the last document to fit and drop the documents after it.
    """
    kept: list[Ids] = []
    held_out: list[Ids] = []
    for ids, is_held in zip(encoded, held, strict=True):
        if is_held:
            held_out.append(ids)
            continue
        kept.append(ids[:room])
        if room is not None:
            room -= len(kept[-1])
            if room == 0:
                break
    return kept, held_out


def _join(parts: list[Ids], dtype: Dtype) -> Tokens:
    joined: Tokens = np.concatenate([np.empty(0, dtype), *parts], dtype=dtype, casting="unsafe")
    return joined


def tokenize(
    spec: DataSpec, tokenizer: Path, out: Path, fetched: Path | None = None, threads: int = 1
) -> TokenManifest:
    """Encode a corpus into a token store: EOS after every document, train and validation split by url.

    The files depend only on the spec, the tokenizer and the text. The manifest is written last.

    Args:
        spec: corpus and tokens.
        tokenizer: path of the SentencePiece model.
        out: folder of the store.
        fetched: folder of the fetched sample corpus.
        threads: encoder threads.

    Raises:
        CollapseError: if the tokenizer or the text is missing or damaged, or no training text is left.
    """
    model = read_model(tokenizer)
    processor = load(model, str(tokenizer))
    vocab_size, eos = processor.get_piece_size(), processor.eos_id()
    dtype = dtype_for(vocab_size)
    fraction, limit = spec.tokens.validation_fraction, spec.tokens.max_tokens
    texts = documents(spec.corpus, fetched)
    counts = np.zeros(vocab_size, np.int64)
    progress = Progress("tokenizing", "tokens")
    out.mkdir(parents=True, exist_ok=True)
    (out / "manifest.json").unlink(missing_ok=True)
    with SplitWriter(out, "train", dtype) as train, SplitWriter(out, "validation", dtype) as validation:
        for batch in batched(texts):
            encoded = processor.encode(
                [document.text for document in batch], return_type="numpy", add_eos=True, num_threads=threads
            )
            held = [is_validation(document.url, fraction) for document in batch]
            kept, held_out = divide(encoded, held, None if limit is None else limit - train.tokens)
            ids = _join(kept, dtype)
            train.append(ids, len(kept))
            validation.append(_join(held_out, dtype), len(held_out))
            counts += np.bincount(ids, minlength=vocab_size)
            if train.tokens == limit:
                break
            shares = [share for share in (texts.fraction, limit and train.tokens / limit) if share is not None]
            progress.update(train.tokens + validation.tokens, max(shares, default=None))
        if train.tokens == 0:
            raise CollapseError(
                f"{texts.name}: all {validation.documents} documents are held out by tokens.validation_fraction = "
                f"{fraction}, so none is left for training; lower it or provide more text"
            )
        manifest = TokenManifest(
            spec=spec,
            corpus=describe(spec.corpus),
            attributions=attributions(spec.corpus, fetched),
            skipped_empty=texts.empty,
            tokenizer_sha256=hashlib.sha256(model).hexdigest(),
            vocab_size=vocab_size,
            eos_id=eos,
            dtype=dtype,
            train=train.finish(),
            validation=validation.finish(),
            token_frequencies=counts.tolist(),
        )
    write_manifest(out, manifest)
    return manifest
