from typing import Any

import pytest

from collapse.probes.stack import StackSpec

STACK: dict[str, Any] = {
    "data": {
        "corpus": {"source": "shards", "files": ["unused.json.gz"]},
        "tokens": {"tokenizer": {"kind": "file", "path": "unused.model"}},
    },
    "model": {
        "placement": "post", "layers": 3, "width": 32, "heads": 4, "ffn_width": 48, "sequence_length": 24,
        "vocab_size": 256, "tie_embeddings": True, "embedding_std": 0.02, "norm_eps": 0.0,
    },
    "window": 2,
    "input_rms": "unit",
}  # fmt: skip


@pytest.fixture
def stack() -> dict[str, Any]:
    """A small stack over `byte_tokens`; every probe adds its own keys to this spec."""
    return StackSpec.model_validate(STACK).canonical()
