"""Streamed documents of a dataset and single files from the Hugging Face hub; every failure is one sentence."""

import errno
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from collapse.config.corpus import HubCorpus
from collapse.corpus import shards
from collapse.corpus.document import Document
from collapse.errors import CollapseError


@contextmanager
def _hub_errors(what: str) -> Iterator[None]:
    """Turn every error of the hub libraries into one sentence; errors of the local disk stay as they are."""
    from huggingface_hub import errors

    try:
        yield
    except CollapseError:
        raise
    except errors.GatedRepoError:
        raise CollapseError(
            f"{what}: access is restricted; accept its terms on the hub and log in with `hf auth login`"
        ) from None
    except errors.RepositoryNotFoundError:
        raise CollapseError(f"{what}: the hub has no such repository, or it is private") from None
    except errors.RevisionNotFoundError:
        raise CollapseError(f"{what}: the repository has no such revision") from None
    except errors.LocalEntryNotFoundError:
        raise CollapseError(_unreachable(what, "it is not in the local cache either")) from None
    except errors.EntryNotFoundError:
        raise CollapseError(f"{what}: the repository has no such file") from None
    except Exception as error:  # the versions of the libraries decide which HTTP client raises
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EROFS, errno.EACCES):
            raise
        raise CollapseError(_unreachable(what, f"{type(error).__name__}: {_first_line(error)}")) from None


def _first_line(error: Exception) -> str:
    lines = str(error).strip().splitlines()
    return lines[0] if lines else "no message"


def _unreachable(what: str, detail: str) -> str:
    return (
        f"{what}: the Hugging Face hub cannot be reached ({detail}); check the network, HF_ENDPOINT and "
        "HF_HUB_OFFLINE, or use local files: corpus.source `shards` or `sample`, tokens.tokenizer.kind `file`"
    )


def read(corpus: HubCorpus) -> Iterator[tuple[Document, None]]:
    """Every document of a dataset on the hub, streamed in order.

    Raises:
        CollapseError: if the hub cannot be reached, has no such dataset, or a record has no `text` or `url`.
    """
    import datasets
    from datasets.exceptions import DatasetNotFoundError

    datasets.disable_progress_bars()
    datasets.logging.set_verbosity_error()
    what = f"dataset {corpus.repository}, subset {corpus.subset}, split {corpus.split}, revision {corpus.revision}"
    with _hub_errors(what):
        try:
            dataset = datasets.load_dataset(
                corpus.repository, corpus.subset, split=corpus.split, streaming=True, revision=corpus.revision
            )
        except (DatasetNotFoundError, ValueError) as error:
            raise CollapseError(f"{what}: {_first_line(error)}") from None
        for number, record in enumerate(dataset, start=1):
            yield shards.document(record, f"{what}, record {number}"), None


def file(repository: str, filename: str, revision: str) -> Path:
    """Path of a file of a model repository in the hub's local cache, downloaded if necessary.

    Raises:
        CollapseError: if the file cannot be downloaded.
    """
    import huggingface_hub
    from huggingface_hub.utils.tqdm import disable_progress_bars

    disable_progress_bars()
    with _hub_errors(f"{filename} of {repository} at revision {revision}"):
        return Path(huggingface_hub.hf_hub_download(repository, filename, revision=revision))
