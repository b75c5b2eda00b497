"""What `collapse plan` forecasts, against real trainings: memory, checkpoints, stores."""

import gc
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from torch.utils.weak import WeakIdKeyDictionary

from collapse.config.run import RunSpec
from collapse.pipeline.cost import CHECKPOINTS_KEPT, Precision, checkpoint_bytes, memory
from collapse.store.publish import dataset, publish
from collapse.training import checkpoint
from collapse.training.device import Device
from collapse.training.loop import Trainer
from collapse.training.measurements import Pending
from collapse.upkeep.forecast import store_bytes


class Allocated(TorchDispatchMode):
    """Bytes of all tensors that exist, and their peak, from the outputs of every operation."""

    RESERVED = 4 * 500_000_000
    """Size of DeepSpeed's reduction buffer of fp32, which does not count: its untouched pages take no memory."""

    def __init__(self) -> None:
        super().__init__()
        self.now = self.peak = 0
        self.known: Any = WeakIdKeyDictionary()

    def _freed(self, size: int) -> None:
        self.now -= size

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        out = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(out):
            storage = tensor.untyped_storage() if isinstance(tensor, torch.Tensor) else None
            if storage is not None and storage not in self.known and storage.nbytes() != self.RESERVED:
                self.known[storage] = True
                weakref.finalize(storage, self._freed, storage.nbytes())
                self.now += storage.nbytes()
                self.peak = max(self.peak, self.now)
        return out


def trainer(lab, folder: Path, spec: RunSpec, precision: Precision = "fp32", **execution: Any) -> Trainer:
    identity = checkpoint.Identity(spec.run_id, "code", "tokens")
    return Trainer(spec, lab.execution(**execution), lab.store, Device("cpu", precision), identity, folder)


DEEP = {"layers": 8, "width": 32, "ffn_width": 96, "sequence_length": 64, "batch_size": 16}
WIDE = {"layers": 2, "width": 192, "ffn_width": 512, "sequence_length": 64, "batch_size": 4}


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize(
    ("shape", "execution"),
    [
        (DEEP, {"micro_batch_size": 8}),
        (WIDE, {"micro_batch_size": 2}),
        (DEEP | {"placement": "pre"}, {"micro_batch_size": 8, "activation_checkpointing": True}),
    ],
    ids=["deep", "wide", "checkpointed"],
)
def test_memory(lab, tmp_path: Path, process_group, shape, execution, precision: Precision) -> None:
    spec = lab.spec(vocab_size=512, **shape)
    with Allocated() as allocated:
        training = trainer(lab, tmp_path, spec, precision, **execution)
        pending = Pending(0)
        training.step(0, pending)  # creates Adam's moments
        gc.collect()
        allocated.peak = 0
        training.step(1, pending)
    forecast = memory(spec.model, training.execution, spec.training.sequences_per_step, precision)
    assert forecast.total == pytest.approx(allocated.peak, rel=0.25)


def test_a_checkpoint(lab, tmp_path: Path, process_group) -> None:
    spec = lab.spec(**WIDE)
    training = trainer(lab, tmp_path, spec)
    training.step(0, Pending(0))
    folder = tmp_path / "results" / "scratch" / f"{spec.run_id}-code" / "checkpoints"
    checkpoint.save(training.engine, folder, 1, training.identity, "digest", "fp32")
    size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    assert size == pytest.approx(checkpoint_bytes(spec.model), rel=0.02)
    assert checkpoint.KEPT == CHECKPOINTS_KEPT


def test_a_store(lab, tmp_path: Path, process_group) -> None:
    spec = lab.spec(layers=8, width=16, ffn_width=32, sequence_length=16, steps=200, horizon=1000)
    training = trainer(lab, tmp_path, spec)
    pending = Pending(0)
    for step in range(spec.training.steps):
        training.step(step, pending)
    training.flush(pending)
    values = {"freq_loss": 1.0, "validation_loss": 1.0}
    publish(dataset(spec, training.history, spec.training.steps, values, {"code": "code"}, "completed"), tmp_path)
    size = sum(path.stat().st_size for path in (tmp_path / "metrics.zarr").rglob("*") if path.is_file())
    assert store_bytes(spec.model.layers, spec.training.steps) == pytest.approx(size, rel=0.2)
