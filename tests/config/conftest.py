from typing import Any

import pytest


@pytest.fixture
def raw() -> dict[str, Any]:
    """A small valid config, as YAML would give it."""
    return {
        "name": "small",
        "corpus": {"source": "sample"},
        "tokens": {"tokenizer": {"kind": "train", "vocab_size": 512}},
        "model": {"layers": 2, "width": 16, "heads": 2, "ffn_width": 32, "sequence_length": 16, "vocab_size": 512},
        "training": {"steps": 12, "warmup_steps": 4, "lr": 1e-3, "batch_size": 4},
        "execution": {"micro_batch_size": 2},
        "grid": {"product": {"lr": [1e-3, 2e-3]}},
    }
