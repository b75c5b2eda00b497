"""The state of a training that does not depend on how many processes share it, or on how ZeRO splits it among them.

It is the fp32 weights, AdamW's two moments, both whole and by the parameters' names, the number of updates, and the
schedule. DeepSpeed's own checkpoints belong to one number of processes and one ZeRO stage.
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
    """Where in the flat parameter it lies."""
    weights: Tensor
    """fp32 weights."""
    moments: dict[str, Tensor]


def _flat(parameter: Any, engine: Any) -> tuple[Any, Any]:
    """The fp32 tensor whose state AdamW keeps, and how DeepSpeed maps the parameter into it; None where it does not."""
    if not hasattr(parameter, "_hp_mapping"):
        return parameter, None
    mapping = parameter._hp_mapping
    return (None, None) if mapping is None else (_group(engine, mapping.param_group_index), mapping)


def _group(engine: Any, index: int) -> Tensor:
    (flat,) = engine.basic_optimizer.param_groups[index]["params"]
    tensor: Tensor = flat
    return tensor


def _part(parameter: Any, engine: Any) -> _Part | None:
    """What this process holds of a parameter; None where it is all with others."""
    flat, mapping = _flat(parameter, engine)
    if flat is None:
        return None
    state = engine.basic_optimizer.state[flat]
    moments = {name: state[name].detach().view(-1) for name in MOMENTS}
    if mapping is None:
        return _Part(slice(0, parameter.numel()), parameter.detach().view(-1), moments)
    here, there = mapping.lp_fragment_address, mapping.hp_fragment_address
    moments = {name: values.narrow(0, there.start, there.numel) for name, values in moments.items()}
    return _Part(slice(here.start, here.start + here.numel), mapping.hp_fragment.detach().view(-1), moments)


def _processes(parameter: Any) -> int:
    """Number of processes that a parameter's state is split among."""
    return dist.get_world_size(parameter._dp_group) if hasattr(parameter, "_hp_mapping") else 1


def _optimized(engine: Any) -> Iterator[Tensor]:
    for group in engine.basic_optimizer.param_groups:
        yield from group["params"]


def capture(engine: Any) -> dict[str, Any]:
    """The whole state, on the CPU, for the main process; an empty one for the others. Called by every process."""
    main = dist.get_rank() == 0
    whole: dict[str, dict[str, Tensor]] = {kind: {} for kind in (WEIGHTS, *MOMENTS)}
    for name, parameter in engine.module.named_parameters():
        part = _part(parameter, engine)
        for kind, tensors in whole.items():
            full = torch.zeros(parameter.numel(), dtype=torch.float32, device=parameter.device)
            if part is not None:
                full[part.place] = part.weights if kind == WEIGHTS else part.moments[kind]
            if _processes(parameter) > 1:
                dist.reduce(full.view(torch.int32), dst=0)  # as integers, bits and zeros add up to the bits
            if main:
                tensors[name] = full.view(parameter.shape).cpu()
    if not main:
        return {}
    updates = {float(engine.basic_optimizer.state[flat]["step"]) for flat in _optimized(engine)}
    return {**whole, "updates": max(updates), "schedule": engine.lr_scheduler.state_dict()}


@torch.no_grad()
def restore(engine: Any, state: dict[str, Any], source: Path) -> None:
    """Put a whole state into an engine; called by every process.

    Args:
        engine: the DeepSpeed engine.
        state: what `capture` gave.
        source: where it is from.

    Raises:
        CollapseError: where it is of another model.
    """
    parameters = dict(engine.module.named_parameters())
    shapes = {name: tuple(parameter.shape) for name, parameter in parameters.items()}
    for kind in (WEIGHTS, *MOMENTS):
        found = {name: tuple(tensor.shape) for name, tensor in state[kind].items()}
        if found != shapes:
            name = next(name for name in {**shapes, **found} if shapes.get(name) != found.get(name))
            raise CollapseError(
                f"{source}: the checkpoint is of another model: {name} has shape {found.get(name)} there, and "
                f"{shapes.get(name)} here: move its scratch folder away to start this run anew"
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
