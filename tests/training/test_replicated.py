"""ZeRO stage 0: its optimizer clips as PyTorch does, and leaves parameters alone where gradients are not finite."""

import math
import runpy
from pathlib import Path

import pytest
import torch
from torch import nn

from collapse.store.read import open_run
from collapse.training.replicated import ClippedAdamW


def parameter(*gradient: float) -> nn.Parameter:
    p = nn.Parameter(torch.tensor([1.0, -2.0]))
    p.grad = torch.tensor(gradient)
    return p


@pytest.mark.parametrize("clip", [0.1, 100.0])
def test_it_clips_and_keeps_the_norm(clip: float) -> None:
    ours, theirs = parameter(3.0, 4.0), parameter(3.0, 4.0)
    optimizer, plain = ClippedAdamW([ours], clip, lr=0.1), torch.optim.AdamW([theirs], lr=0.1)
    optimizer.step()
    torch.nn.utils.clip_grad_norm_([theirs], clip)
    plain.step()
    assert torch.equal(ours, theirs) and torch.equal(ours.grad, theirs.grad)
    assert optimizer._global_grad_norm == pytest.approx(5) and not optimizer.overflow


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_it_makes_no_update_where_gradients_are_not_finite(bad: float) -> None:
    p = parameter(bad, 1.0)
    optimizer = ClippedAdamW([p], 1.0, lr=0.1)
    optimizer.step()
    assert p.tolist() == [1.0, -2.0] and not optimizer.state
    assert optimizer.overflow and not math.isfinite(optimizer._global_grad_norm)
    p.grad = torch.ones(2)
    optimizer.step()
    assert not optimizer.overflow and p.tolist() != [1.0, -2.0]


def test_a_diverging_run_ends_at_either_stage(lab, process_group: None, tmp_path: Path) -> None:
    train = runpy.run_path(str(Path(__file__).with_name("splits.py")))["train"]
    for stage in (0, 1):
        folder = tmp_path / str(stage)
        spec = lab.spec(lr=1e30, warmup_steps=0, steps=4)
        train(spec, lab.execution(zero_stage=stage), lab.tokens, folder)
        assert "was not finite at step 1" in open_run(folder).attrs["ended"]
