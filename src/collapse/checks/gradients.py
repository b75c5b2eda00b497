"""Checks of how gradients pass a collapsed network, and what a gradient step does to it (Theorem 3.6, Appendix D)."""

from collections.abc import Callable

import numpy as np
import torch
from torch import Tensor, nn
from torch.func import functional_call
from torch.nn import functional

from collapse.checks.network import SHAPE, States, Trial, norms, run
from collapse.checks.statements import Comparison
from collapse.similarity import token_diversity
from collapse.theory.collapsed import contraction_factor, near_collapse_bound

N, D = SHAPE.sequence_length, SHAPE.width
EDGE = 1 / (4 * N + 1)
"""Largest delta of Proposition D.1."""
STEPS = (0.1, 1.0, 10.0)
"""Step sizes eta, in units of ||Y||_F/||U||_F."""


def _differentiated(trial: Trial, rows: Tensor) -> States:
    """States of the trial's network for rows (n, d), with the gradients of the cross-entropy of random labels."""
    states = run(trial.decoder, rows)
    loss = functional.cross_entropy(trial.decoder.head(states.x[-1]), trial.labels())
    torch.autograd.backward(loss)
    return states


def contraction_checks(trial: Trial) -> dict[str, Comparison]:
    """Theorem 3.6 in every sublayer, over every layer, and over the whole depth."""
    states = _differentiated(trial, trial.collapsed())
    x, y = states.grad_x, states.grad_y
    c = contraction_factor(x[:-1] / y, norms(state.mean(0) for state in states.y), D)
    by_layer = c.reshape(-1, 2).prod(-1)
    bounds = {
        "theorem-3.6": (x[:-1], c * x[1:]),
        "theorem-3.6-layer": (x[:-1:2], by_layer * x[2::2]),
        "theorem-3.6-depth": (x[0], c.prod() * x[-1]),
    }
    return {name: Comparison(measured, stated, stated) for name, (measured, stated) in bounds.items()}


def near_collapse_checks(trial: Trial) -> dict[str, Comparison]:
    """Proposition D.1 on rows of given delta, their deviation random or all in one row, and on a network's states."""
    delta = np.geomspace(1e-8, EDGE, 9)
    delta[-1] = EDGE
    mean = trial.normal(D)
    alone = torch.zeros(N, D, dtype=torch.float64)
    alone[0] = -mean
    factors = np.empty((len(delta), 2))
    for i, value in enumerate(delta):
        size = (N * value / (1 - value)) ** 0.5 * torch.linalg.vector_norm(mean)
        for j, deviation in enumerate((trial.centred(), alone - alone.mean(0))):
            rows = mean + size / torch.linalg.vector_norm(deviation) * deviation
            factors[i, j] = D**0.5 / float(torch.linalg.vector_norm(rows, dim=-1).min())
    c0 = D**0.5 / norms([mean])
    bound = near_collapse_bound(delta, N, c0)[:, None]

    share = EDGE / 2 * 10 ** (-4 * (1 - trial.share))
    common, deviation = trial.collapsed(), trial.centred()
    size = (share / (1 - share)) ** 0.5 * torch.linalg.vector_norm(common)
    states = _differentiated(trial, common + size / torch.linalg.vector_norm(deviation) * deviation)
    x, y = states.grad_x, states.grad_y
    found = np.array([float(token_diversity(state.detach())) for state in states.y])
    near = (found > 0) & (found <= EDGE)
    factor = D**0.5 / norms(state.mean(0) for state in states.y)
    stated = near_collapse_bound(np.where(near, found, 0), N, factor) * (x[:-1] / y) * x[1:]
    gradient = (
        Comparison(x[:-1][near], stated[near], stated[near]) if near.any() else Comparison(np.nan, np.nan, np.nan)
    )
    return {"proposition-d1-rows": Comparison(factors, bound, bound), "proposition-d1-gradient": gradient}


def growth_checks(trial: Trial) -> dict[str, Comparison]:
    """Proposition D.2: gradient steps on W_O and W_2 in every layer of a collapsed network."""
    trial.decoder.zero_grad()
    states = _differentiated(trial, trial.collapsed())
    table = trial.decoder.rotary(N)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for index, layer in enumerate(trial.decoder.stack):
        for k, (branch, name, more) in enumerate(((layer.attention, "output", (table,)), (layer.ffn, "down", ()))):
            x, y, gradient = states.x[2 * index + k].detach(), states.y[2 * index + k], states.y[2 * index + k].grad
            assert gradient is not None
            y = y.detach()
            along = float(torch.linalg.matrix_norm(gradient @ y.T))
            found.setdefault("proposition-d2-orthogonal", []).append(
                (along, 0.0, float(torch.linalg.matrix_norm(gradient) * torch.linalg.matrix_norm(y)))
            )
            for before, after, growth in _steps(branch, name, x, y, gradient, more):
                found.setdefault(f"proposition-d2-{name}", []).append((after - before, growth, growth))
                found.setdefault(f"proposition-d2-{name}-growth", []).append((after, before, growth))
    return {name: Comparison(*np.array(rows).T) for name, rows in found.items()}


@torch.no_grad()
def _steps(
    branch: nn.Module, name: str, x: Tensor, y: Tensor, gradient: Tensor, more: tuple[Tensor, ...]
) -> list[tuple[float, float, float]]:
    """||Y||_F^2 before and after a gradient step on a branch's last matrix, and eta^2 ||U||_F^2, by `STEPS`."""
    features = _inputs(branch, name, x, more)
    update = features @ (features.T @ gradient)
    weight = branch.get_submodule(name).get_parameter("weight")
    assert weight.grad is not None
    before, length = float(y.square().sum()), float(torch.linalg.vector_norm(update))
    steps = []
    for ratio in STEPS:
        eta = ratio * before**0.5 / length
        changed = {f"{name}.weight": weight - eta * weight.grad}
        moved = x + functional_call(branch, changed, (x[None], *more))[0]
        steps.append((before, float(moved.square().sum()), (eta * length) ** 2))
    return steps


def _inputs(branch: nn.Module, name: str, x: Tensor, more: tuple[Tensor, ...]) -> Tensor:
    """The input of a branch's last matrix: H_1 for W_O, R_s for W_2; (n, features)."""
    seen: list[Tensor] = []
    keep: Callable[[nn.Module, tuple[Tensor, ...]], None] = lambda _, inputs: seen.append(inputs[0][0])  # noqa: E731
    handle = branch.get_submodule(name).register_forward_pre_hook(keep)
    branch(x[None], *more)
    handle.remove()
    return seen[0]
