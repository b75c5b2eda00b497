"""The state of a training, out of one engine and into another: to the bit, whatever the ZeRO stage."""

from pathlib import Path
from typing import Any

import pytest
import torch

from collapse.errors import CollapseError
from collapse.training.checkpoint import Identity
from collapse.training.engine import Device
from collapse.training.loop import Trainer
from collapse.training.measurements import Pending
from collapse.training.state import MOMENTS, WEIGHTS, capture, restore


def trainer(lab, folder: Path, precision: str = "fp32", stage: int = 1, **model: Any) -> Trainer:
    spec = lab.spec(precision=precision, **model)
    identity = Identity(spec.run_id, "code", "tokens")
    return Trainer(spec, lab.execution(zero_stage=stage), lab.store, Device("cpu", precision), identity, folder)


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


@pytest.mark.parametrize(
    ("precision", "before", "after", "tied"),
    [("fp32", 1, 1, True), ("fp32", 1, 0, False), ("fp32", 0, 1, False), ("bf16", 1, 1, False), ("bf16", 0, 1, True)],
)
def test_going_on_from_a_state_is_bit_identical(
    lab, tmp_path: Path, process_group, precision: str, before: int, after: int, tied: bool
) -> None:
    one = trainer(lab, tmp_path / "one", precision, before, tie_embeddings=tied)
    other = trainer(lab, tmp_path / "other", precision, after, tie_embeddings=tied)
    steps(one, 0, 3)
    state = capture(one.engine)
    assert state["updates"] == 3 and state["schedule"]["last_epoch"] == 3
    assert len(state[WEIGHTS]) == len(dict(one.decoder.named_parameters()))
    restore(other.engine, state, tmp_path)
    assert equal(state, capture(other.engine))
    if before == after:
        assert torch.equal(steps(one, 3, 6), steps(other, 3, 6))
        assert equal(capture(one.engine), capture(other.engine))
    else:
        torch.testing.assert_close(steps(one, 3, 6), steps(other, 3, 6), rtol=1e-5, atol=0)


def test_a_state_of_another_model_is_refused(lab, tmp_path: Path, process_group) -> None:
    one, other = (trainer(lab, tmp_path / str(layers), layers=layers) for layers in (3, 2))
    steps(one, 0, 1)
    with pytest.raises(CollapseError, match=r"of another model: layers\.2\.\S+ has shape \(.*\) there, and None here"):
        restore(other.engine, capture(one.engine), tmp_path)
    wide = trainer(lab, tmp_path / "wide", ffn_width=96)
    with pytest.raises(CollapseError, match=r"ffn\.gate_up\.weight has shape \(128, 32\) there, and \(192, 32\) here"):
        restore(wide.engine, capture(one.engine), tmp_path)
