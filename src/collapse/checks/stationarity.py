"""Checks of the loss and of vanishing gradients, at collapse and near it (Theorem 3.8, Appendix E)."""

from functools import partial

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from collapse.checks.network import SHAPE, Trial, normalize, norms, run
from collapse.checks.statements import Comparison
from collapse.corpus.frequencies import frequency_distribution, frequency_loss
from collapse.similarity import token_diversity
from collapse.theory.collapsed import loss_floor

N, D = SHAPE.sequence_length, SHAPE.width
DEVIATIONS = np.geomspace(1e-4, 10, 6)
"""||X^H - Pi X^H||_F of states near collapse."""


def frequency_head(trial: Trial, row: Tensor, labels: Tensor) -> Tensor:
    """A random LM head (v, d) whose output for a row (d,) is the frequency distribution of labels (n,)."""
    shares = torch.from_numpy(frequency_distribution(labels.numpy(), SHAPE.vocab_size))
    along = row / row.square().sum()
    free = trial.normal(SHAPE.vocab_size, D)
    return torch.outer(shares.log() - free @ row, along) + free


def _column_sum(gradient: Tensor) -> tuple[float, float]:
    """Norm of the sum of a gradient's rows, and the sum of their norms."""
    return float(torch.linalg.vector_norm(gradient.sum(0))), float(torch.linalg.vector_norm(gradient, dim=-1).sum())


def network_checks(trial: Trial) -> dict[str, Comparison]:
    """Lemma E.1, Theorem 3.8 (i) at collapse and (ii): a whole network on rows that are all equal, or on one token."""
    decoder, labels = trial.decoder, trial.labels()
    states = run(decoder, trial.collapsed())
    residual = [float(token_diversity(state.detach())) ** 0.5 for state in (*states.x[1:], *states.y)]

    token = torch.randint(SHAPE.vocab_size, (1, 1), generator=trial.generator)
    hidden = decoder.hidden(token.expand(1, N))[0]
    random_loss = functional.cross_entropy(decoder.head(hidden), labels)
    head = frequency_head(trial, hidden[0].detach(), labels)
    loss = functional.cross_entropy(hidden @ head.T, labels)
    vanishing, ordinary = (
        np.array(
            [
                np.linalg.norm(norms(torch.autograd.grad(value, matrices, retain_graph=True)))
                for matrices in decoder.sublayer_matrices()
            ]
        )
        for value in (loss, random_loss)
    )
    lowest = frequency_loss(labels.numpy())
    return {
        "lemma-e1": Comparison(residual, 0.0, 1.0),
        "theorem-3.8-collapsed": Comparison(random_loss.item(), lowest, lowest),
        "theorem-3.8-attained": Comparison(loss.item(), lowest, lowest),
        "theorem-3.8-vanishing": Comparison(vanishing, 0.0, ordinary),
    }


def sublayer_checks(trial: Trial) -> dict[str, Comparison]:
    """Theorem E.3 in every sublayer, Lemma E.4: gradients of zero column sum, sent back through collapsed sublayers.

    The scale of a parameter gradient is the one that a dL/dY of the same norm gives whose rows do not cancel.
    """
    table = trial.decoder.rotary(N)
    found: dict[str, list[tuple[float, float, float]]] = {}
    for layer in trial.decoder.stack:
        for name, branch in (("attention", partial(layer.attention, table=table)), ("ffn", layer.ffn)):
            x = normalize(trial.collapsed()).requires_grad_()
            parameters = list(getattr(layer, name).parameters())
            y = x + branch(x[None])[0]
            gradient = trial.centred()
            aligned = trial.collapsed()
            aligned *= torch.linalg.vector_norm(gradient) / torch.linalg.vector_norm(aligned)
            to_input, *vanishing = torch.autograd.grad(y, [x, *parameters], gradient, retain_graph=True)
            ordinary = torch.autograd.grad(y, parameters, aligned)
            sizes = (float(np.linalg.norm(norms(gradients))) for gradients in (vanishing, ordinary))
            measured, scale = sizes
            found.setdefault(f"theorem-e3-{name}-parameters", []).append((measured, 0.0, scale))
            measured, scale = _column_sum(to_input)
            found.setdefault(f"theorem-e3-{name}-input", []).append((measured, 0.0, scale))
            y = trial.collapsed().requires_grad_()
            (to_y,) = torch.autograd.grad(normalize(y), [y], trial.centred())
            measured, scale = _column_sum(to_y)
            found.setdefault("lemma-e4", []).append((measured, 0.0, scale))
    return {name: Comparison(*np.array(rows).T) for name, rows in found.items()}


def loss_checks(trial: Trial) -> dict[str, Comparison]:
    """Lemma E.2, and Theorem 3.8 (i) near collapse: deviations at random or down the gradient from the best loss."""
    labels, common = trial.labels(), normalize(trial.collapsed())
    head = frequency_head(trial, common[0], labels).requires_grad_()
    _, _, rows = torch.linalg.svd(head.detach())
    unseen = trial.normal(N, D - SHAPE.vocab_size) @ rows[SHAPE.vocab_size :]
    spread = (common + unseen).requires_grad_()
    (to_hidden,) = torch.autograd.grad(functional.cross_entropy(spread @ head.T, labels), [spread])
    hidden = _column_sum(to_hidden)

    collapsed = common.clone().requires_grad_()
    logits = collapsed @ head.T
    loss = functional.cross_entropy(logits, labels)
    to_logits, to_head, downhill = torch.autograd.grad(loss, [logits, head, collapsed])
    contributions = torch.linalg.vector_norm(to_logits, dim=-1) * torch.linalg.vector_norm(common, dim=-1)

    lowest, size = frequency_loss(labels.numpy()), float(torch.linalg.matrix_norm(head.detach(), 2))
    losses = np.empty((len(DEVIATIONS), 2))
    with torch.no_grad():
        for j, direction in enumerate((trial.centred(), downhill.mean(0) - downhill)):
            for i, deviation in enumerate(DEVIATIONS):
                rows = common + deviation / torch.linalg.vector_norm(direction) * direction
                losses[i, j] = functional.cross_entropy(rows @ head.T, labels)
    floor = loss_floor(lowest, DEVIATIONS, size, N)[:, None]
    return {
        "lemma-e2-hidden": Comparison(hidden[0], 0.0, hidden[1]),
        "lemma-e2-head": Comparison(norms([to_head]), 0.0, float(contributions.sum())),
        "theorem-3.8-near": Comparison(losses, floor, lowest - floor),
    }
