import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from collapse.config.execution import ExecutionConfig
from collapse.config.run import RunSpec
from collapse.corpus.frequencies import frequency_distribution
from collapse.corpus.store import TokenStore
from collapse.launch.job import TrainingJob

VOCAB = 256

SPEC = {
    "corpus": {"source": "shards", "files": ["unused.json.gz"]},
    "tokens": {"tokenizer": {"kind": "file", "path": "unused.model"}},
    "model": {
        "placement": "post", "layers": 3, "width": 32, "heads": 4, "ffn_width": 64, "sequence_length": 24,
        "vocab_size": VOCAB, "tie_embeddings": False, "embedding_std": 1.0,
    },
    "training": {"steps": 12, "horizon": 40, "warmup_steps": 4, "lr": 1e-3, "batch_size": 8, "seed": 0},
    "record": {"floor_every": 3, "validation_sequences": 8},
}  # fmt: skip
EXECUTION = {"micro_batch_size": 8, "flush_every": 4, "checkpoint_every": 5, "log_seconds": 0.001, "device": "cpu"}


def make_spec(**changes: Any) -> RunSpec:
    """The small run, with values of `model`, `training` or `record` replaced by name."""
    content = {name: dict(section) for name, section in SPEC.items()}
    for key, value in changes.items():
        owner = next(name for name in ("model", "training", "record") if key in type_fields(name))
        content[owner][key] = value
    return RunSpec.model_validate(content)


def type_fields(section: str) -> set[str]:
    return set(RunSpec.model_fields[section].annotation.model_fields)


def make_execution(**changes: Any) -> ExecutionConfig:
    return ExecutionConfig.model_validate(EXECUTION | changes)


@dataclass(frozen=True)
class Lab:
    """What the tests of training and launch share."""

    tokens: Path

    spec = staticmethod(make_spec)
    environment = os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1", "GIT_DIR": os.devnull}
    """No commit is recorded: there may be a new one between two runs that must be equal."""
    execution = staticmethod(make_execution)

    @property
    def store(self) -> TokenStore:
        return TokenStore.open(self.tokens)

    def job(
        self, spec: RunSpec, execution: ExecutionConfig, folder: Path, code: str = "code", tokens: Path | None = None
    ) -> TrainingJob:
        """A training with its scratch and output under a folder."""
        return TrainingJob(
            spec=spec, execution=execution, code=code, tokens=tokens or self.tokens,
            scratch=folder / "scratch" / "run", out=folder / "run",
        )  # fmt: skip

    def command(self, spec: RunSpec, execution: ExecutionConfig, folder: Path, **options: Any) -> list[str]:
        """The training command."""
        job = self.job(spec, execution, folder, **options)
        return [sys.executable, "-m", "collapse.launch", job.model_dump_json(exclude={"began"})]

    def run(
        self, spec: RunSpec, execution: ExecutionConfig, folder: Path, **options: Any
    ) -> subprocess.CompletedProcess[str]:
        limits = options.pop("preexec_fn", None)
        return subprocess.run(
            self.command(spec, execution, folder, **options), capture_output=True, text=True, check=False,
            env=self.environment, preexec_fn=limits,
        )  # fmt: skip


@pytest.fixture(scope="session")
def lab(byte_tokens: Path) -> Lab:
    """A token store of real English: Python's own documentation, one token per byte."""
    assert frequency_distribution(TokenStore.open(byte_tokens).train, VOCAB).sum() == pytest.approx(1)
    return Lab(byte_tokens)


@pytest.fixture(scope="session")
def process_group() -> Iterator[None]:
    """This process as a group of one, for tests that train in place."""
    import torch.distributed as dist

    from collapse.launch.group import start_distributed
    from collapse.training.device import Device

    start_distributed(Device("cpu", "fp32"), threads=1)
    yield
    dist.destroy_process_group()
