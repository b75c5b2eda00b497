"""The state of a training in a form that does not depend on how many processes share it.

It holds the fp32 weights and AdamW's two moments, whole and by the parameters' names, the number of updates, and the
schedule. DeepSpeed's own checkpoints can only be read by the number of processes that wrote them.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

from collapse.errors import CollapseError

MOMENTS = ("exp_avg", "exp_avg_sq")
"""AdamW's names for its running means of the gradient and of its square."""
WEIGHTS = "weights"


class _Part(NamedTuple):
    """The part of a parameter that this process updates, as views: flat tensors of equal length."""

    place: slice
    """Where it lies in the flat parameter."""
    weights: Tensor
    """fp32 weights."""
    moments: dict[str, Tensor]


def _part(parameter: Any, engine: Any) -> _Part | None:
    """What this process holds of a parameter; None if other processes hold all of it."""
    mapping = parameter._hp_mapping
    if mapping is None:
        return None
    (flat,) = engine.basic_optimizer.param_groups[mapping.param_group_index]["params"]
    state = engine.basic_optimizer.state[flat]
    here, there = mapping.lp_fragment_address, mapping.hp_fragment_address
    moments = {name: state[name].detach().view(-1).narrow(0, there.start, there.numel) for name in MOMENTS}
    return _Part(slice(here.start, here.start + here.numel), mapping.hp_fragment.detach().view(-1), moments)


def _optimized(engine: Any) -> Iterator[Tensor]:
    for group in engine.basic_optimizer.param_groups:
        yield from group["params"]


def capture(engine: Any) -> dict[str, Any]:
    """The whole state on the CPU in the main process, an empty one in the others. Every process must call it."""
    main = dist.get_rank() == 0
    whole: dict[str, dict[str, Tensor]] = {kind: {} for kind in (WEIGHTS, *MOMENTS)}
    for name, parameter in engine.module.named_parameters():
        part = _part(parameter, engine)
        for kind, tensors in whole.items():
            full = torch.zeros(parameter.numel(), dtype=torch.float32, device=parameter.device)
            if part is not None:
                full[part.place] = part.weights if kind == WEIGHTS else part.moments[kind]
            if dist.get_world_size() > 1:
                dist.reduce(full.view(torch.int32), dst=0)  # as integers: zeros and bits add up to exactly the bits
            if main:
                tensors[name] = full.view(parameter.shape).cpu()
    if not main:
        return {}
    updates = {float(engine.basic_optimizer.state[flat]["step"]) for flat in _optimized(engine)}
    return {**whole, "updates": max(updates), "schedule": engine.lr_scheduler.state_dict()}


@torch.no_grad()
def restore(engine: Any, state: dict[str, Any], source: Path) -> None:
    """Put a whole state into an engine. Every process must call it.

    Args:
        engine: the DeepSpeed engine.
        state: what `capture` returned.
        source: the file that it was read from, for the error.

    Raises:
        CollapseError: if the state belongs to another model.
    """
    parameters = dict(engine.module.named_parameters())
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    for kind in (WEIGHTS, *MOMENTS):
        found = {name: tuple(tensor.shape) for name, tensor in state[kind].items()}
        if found != shapes:
            name = next(name for name in {**shapes, **found} if shapes.get(name) != found.get(name))
            raise CollapseError(
                f"{source}: the checkpoint belongs to another model: {name} has shape {found.get(name)} in the "
                f"checkpoint and {shapes.get(name)} here; move its scratch folder away to train this run from step 0"
            )
    optimizer = engine.basic_optimizer
    for flat in _optimized(engine):
        zeros = {name: torch.zeros_like(flat) for name in MOMENTS}
        optimizer.state[flat] = {"step": torch.tensor(state["updates"], device=flat.device), **zeros}
    for name, parameter in parameters.items():
        parameter.copy_(state[WEIGHTS][name])
        part = _part(parameter, engine)
        if part is not None:
            part.weights.copy_(state[WEIGHTS][name].view(-1)[part.place])
            for kind in MOMENTS:
                part.moments[kind].copy_(state[kind][name].view(-1)[part.place])
    engine.lr_scheduler.load_state_dict(state["schedule"])
    for group, lr in zip(optimizer.param_groups, engine.lr_scheduler.get_last_lr(), strict=True):
        group["lr"] = lr
