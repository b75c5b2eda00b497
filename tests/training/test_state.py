"""The state of a training goes from one engine to another without losing a bit."""

from pathlib import Path
from typing import Any

import pytest
import torch

from collapse.errors import CollapseError
from collapse.training.checkpoint import Identity
from collapse.training.device import Device
from collapse.training.loop import Trainer
from collapse.training.measurements import Pending
from collapse.training.state import MOMENTS, WEIGHTS, capture, restore


def trainer(lab, folder: Path, precision: str = "fp32", **model: Any) -> Trainer:
    spec = lab.spec(precision=precision, **model)
    identity = Identity(spec.run_id, "code", "tokens")
    return Trainer(spec, lab.execution(), lab.store, Device("cpu", precision), identity, folder)


def steps(of: Trainer, first: int, last: int) -> torch.Tensor:
    pending = Pending(first)
    for step in range(first, last):
        of.step(step, pending)
    return torch.stack(pending.losses)


def equal(one: dict[str, Any], other: dict[str, Any]) -> bool:
    tensors = all(
        torch.equal(tensor, other[kind][name]) for kind in (WEIGHTS, *MOMENTS) for name, tensor in one[kind].items()
    )
    return tensors and one["updates"] == other["updates"] and one["schedule"] == other["schedule"]


@pytest.mark.parametrize("precision", ["fp32", "bf16"])
@pytest.mark.parametrize("tied", [True, False])
def test_resuming_from_a_state_is_bit_identical(lab, tmp_path: Path, process_group, precision: str, tied: bool) -> None:
    one, other = (trainer(lab, tmp_path / name, precision, tie_embeddings=tied) for name in ("one", "other"))
    steps(one, 0, 3)
    state = capture(one.engine)
    assert state["updates"] == 3 and state["schedule"]["last_epoch"] == 3
    assert len(state[WEIGHTS]) == len(dict(one.decoder.named_parameters()))
    restore(other.engine, state, tmp_path)
    assert equal(state, capture(other.engine))
    assert torch.equal(steps(one, 3, 6), steps(other, 3, 6))
    assert equal(capture(one.engine), capture(other.engine))


def test_a_state_of_another_model_is_refused(lab, tmp_path: Path, process_group) -> None:
    one, other = (trainer(lab, tmp_path / str(layers), layers=layers) for layers in (3, 2))
    steps(one, 0, 1)
    with pytest.raises(CollapseError, match=r"another model: layers\.2\.\S+ has shape \(.*\) in the .* and None here"):
        restore(other.engine, capture(one.engine), tmp_path)
    wide = trainer(lab, tmp_path / "wide", ffn_width=96)
    with pytest.raises(CollapseError, match=r"ffn\.gate_up\.weight has shape \(128, 32\) in .* and \(192, 32\) here"):
        restore(wide.engine, capture(one.engine), tmp_path)
