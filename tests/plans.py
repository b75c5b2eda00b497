"""Small configs, and their plans, that tests share."""

from pathlib import Path
from typing import Any

import pytest

from collapse.config.root import parse
from collapse.pipeline.plan import Plan

CONFIG = {
    "name": "small",
    "corpus": {"source": "sample"},
    "tokens": {"tokenizer": {"kind": "train", "vocab_size": 512}},
    "model": {"layers": 2, "width": 16, "heads": 2, "ffn_width": 32, "sequence_length": 16, "vocab_size": 512},
    "training": {"steps": 100, "warmup_steps": 4, "lr": 1e-3, "batch_size": 8},
    "execution": {"micro_batch_size": 2},
    "record": {},
    "grid": {"product": {"lr": [1e-3, 2e-3, 3e-3]}, "extra": [{"scope": "sequence", "steps": 50}]},
}


@pytest.fixture
def make_plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Plans of a small config with sections replaced; results are looked for in an empty folder."""
    monkeypatch.chdir(tmp_path)

    def made(**sections: Any) -> Plan:
        merged = {key: value | sections.get(key, {}) for key, value in CONFIG.items() if isinstance(value, dict)}
        return Plan(parse(CONFIG | merged))

    return made


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
