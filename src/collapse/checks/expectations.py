"""Checks of expectations over the weights and of bounds for any state (Corollary 3.3, Theorem 3.4, Appendix C).

The scale of a Monte Carlo mean is its standard error.
"""

import numpy as np
import torch
from numpy.typing import ArrayLike, NDArray
from torch import Tensor

from collapse.checks.network import Trial, normalize
from collapse.checks.statements import Comparison
from collapse.config.model import ModelConfig
from collapse.model.decoder import Attention, FeedForward
from collapse.model.initialization import draw_matrices
from collapse.model.rotary import rotary_table
from collapse.probes.network import attention_branch, attention_weights
from collapse.similarity import token_similarity
from collapse.theory.attention import SquaredNorms, attention_expectations, folded_variance, token_correlation
from collapse.theory.ffn import swiglu_coefficient, swiglu_moment
from collapse.theory.normalization import attention_row_norm, ffn_row_norm, rms_similarity_bounds

SHAPE = ModelConfig(layers=1, width=64, heads=4, ffn_width=96, sequence_length=32, vocab_size=2, norm_eps=0.0)
"""n is at most d, so that rows can have any Gram matrix."""
N, D, D_FF = SHAPE.sequence_length, SHAPE.width, SHAPE.ffn_width
WEIGHT_VARIANCE = folded_variance(D, 1 / (3 * D), 1 / (3 * D))
DRAWS = 500
"""Draws of the weights per mean."""
ROWS = np.array([1, 2, N // 2, N])
"""Positions, counted from 1, whose row norms are compared."""
TOLD_APART = 10.0
"""Standard errors by which the mean must miss a wrong expectation."""


def equal_correlation(trial: Trial, t: float) -> Tensor:
    """Random rows (n, d) of squared norm d and token similarity t whose Gram matrix is d R_eq(t), exactly."""
    rho = float(token_correlation(t, N))
    mean = torch.full((N, N), 1 / N, dtype=torch.float64)
    root = (1 - rho) ** 0.5 * (torch.eye(N, dtype=torch.float64) - mean) + (1 + (N - 1) * rho) ** 0.5 * mean
    directions, _ = torch.linalg.qr(trial.normal(D, N))
    rows: Tensor = D**0.5 * root @ directions.T
    return rows


def _similarity(trial: Trial) -> float:
    """t: 1/n in the first trial, 1 in the last."""
    return min(1.0, 1 / N + trial.share * (1 - 1 / N))


def _squares(y: Tensor) -> Tensor:
    """||Pi Y||_F^2, ||Y||_F^2 and ||y_i||^2 at the positions `ROWS` of rows (..., n, d): (..., 2 + len(ROWS))."""
    row_sq = y.square().sum(-1)
    projected = y.shape[-2] * y.mean(-2).square().sum(-1)
    return torch.cat([projected[..., None], row_sq.sum(-1, keepdim=True), row_sq[..., ROWS - 1]], -1)


def _mean(draws: list[Tensor]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Mean over draws and its standard error."""
    values = torch.stack(draws).numpy()
    return values.mean(0), values.std(0, ddof=1) / len(values) ** 0.5


def _both(name: str, mean: ArrayLike, stated: ArrayLike, error: ArrayLike) -> dict[str, Comparison]:
    """Comparisons of the projected and of the total squared norm: `<name>-projected`, `<name>-total`."""
    parts = zip(SquaredNorms._fields, np.asarray(mean), np.asarray(stated), np.asarray(error), strict=False)
    return {f"{name}-{part}": Comparison(*numbers) for part, *numbers in parts}


@torch.no_grad()
def attention_checks(trial: Trial) -> dict[str, Comparison]:
    """Theorem C.3, Corollary 3.3 and its erratum, Lemma C.5. W_Q and W_K are 0, so that P is exactly C_n."""
    t, a = _similarity(trial), 0.1 + 0.3 * trial.share
    x = equal_correlation(trial, t).expand(2, -1, -1)
    attention = Attention(SHAPE).double()
    attention.qkv.weight.zero_()
    matrices = [attention.qkv.weight.chunk(3)[2], attention.output.weight]
    table = rotary_table(N, D // SHAPE.heads, SHAPE.rope_base)
    kept = torch.tensor([0.0, a], dtype=torch.float64)
    draws = []
    for _ in range(DRAWS):
        draw_matrices(matrices, trial.generator)
        draws.append(_squares(x + attention_branch(attention, x, table, kept)))
    mean, error = _mean(draws)
    printed = attention_expectations(t, N, D, WEIGHT_VARIANCE / D, a)
    missed = np.abs(np.array(printed) - mean[1, :2]) / error[1, :2]
    return {
        **_both("theorem-c3", mean[0], attention_expectations(t, N, D, WEIGHT_VARIANCE), error[0]),
        **_both("corollary-3.3", mean[1], attention_expectations(t, N, D, WEIGHT_VARIANCE, a), error[1]),
        **_both("erratum-c3", missed, [TOLD_APART] * 2, [1.0] * 2),
        "lemma-c5": Comparison(mean[0, 2:], attention_row_norm(ROWS, t, N, D, WEIGHT_VARIANCE), error[0, 2:]),
    }


@torch.no_grad()
def ffn_checks(trial: Trial) -> dict[str, Comparison]:
    """Lemma C.4, and the expectations that Theorem 3.4 follows from."""
    t = _similarity(trial)
    x = equal_correlation(trial, t)
    ffn = FeedForward(SHAPE).double()
    draws = []
    for _ in range(DRAWS):
        draw_matrices(ffn.parameters(), trial.generator)
        draws.append(_squares(x + ffn(x[None])[0]))
    mean, error = _mean(draws)
    variances = (1 / (3 * D), 1 / (3 * D_FF))
    xi, rho = swiglu_coefficient(D, D_FF, *variances), token_correlation(t, N)
    moment, largest = swiglu_moment(rho, 1 / 3), swiglu_moment(1.0, 1 / 3)
    stated = (N * D * t + D * xi * (largest + (N - 1) * moment * rho), N * D * (1 + xi * largest))
    return {
        **_both("theorem-3.4", mean, stated, error),
        "lemma-c4": Comparison(mean[2:], ffn_row_norm(D, D_FF, *variances, 1 / 3), error[2:]),
    }


@torch.no_grad()
def conditional_checks(trial: Trial) -> dict[str, Comparison]:
    """Lemma C.7, and the conditional expectations of Lemma C.11: a sequence and its P are fixed, W is drawn."""
    single = SHAPE.model_copy(update={"heads": 1})
    attention = Attention(single).double()
    draw_matrices(attention.parameters(), trial.generator)
    x = normalize(trial.normal(N, D) + trial.share * trial.normal(1, D))
    read = attention_weights(attention, x, rotary_table(N, D, single.rope_base))[0] @ x
    weights = float(WEIGHT_VARIANCE) ** 0.5 * trial.normal(DRAWS, D, D)
    before, branch = _squares(x)[:2], _squares(read)[:2]
    ratios = (_squares(x + read @ weights)[:, :2] / before).numpy()
    centers = (1 + D * float(WEIGHT_VARIANCE) * branch / before).numpy()
    error = ratios.std(0, ddof=1) / DRAWS**0.5

    m1, m2 = centers
    distance = np.abs(ratios[:, 0] / ratios[:, 1] - m1 / m2)
    epsilon = np.quantile(distance, [0.1, 0.5, 0.9, 0.99])
    gamma = min(m2 / 4, m2**2 / (4 * m1))
    far = np.abs(ratios - centers)
    events = (far[:, 1] >= m2 / 2).mean() + (far.max(1) >= gamma * epsilon[:, None]).mean(1)
    return {
        "lemma-c11-centers": Comparison(ratios.mean(0), centers, error),
        "lemma-c7": Comparison((distance >= epsilon[:, None]).mean(1), events, 1.0),
    }


def rescaling_checks(trial: Trial) -> dict[str, Comparison]:
    """Theorem C.6: sequences from spread out to nearly collapsed, with rows rescaled by a small to large spread."""
    spreads = torch.logspace(-3, -0.2, 16, dtype=torch.float64)[:, None]
    y = trial.normal(16, N, D) + 10 * trial.share * trial.normal(16, 1, D)
    # A third of the rescalings is random, a third favours the rows along the mean row, and a third the other rows.
    random = torch.rand(16, N, generator=trial.generator, dtype=torch.float64) * 2 - 1
    along = torch.linalg.vecdot(y, y.mean(-2, keepdim=True))
    chosen = torch.sign(along - along.median(-1, keepdim=True).values)
    factors = 1 + torch.cat([spreads * random, spreads * chosen, -spreads * chosen])
    y = y.repeat(3, 1, 1)
    mean = factors.mean(-1, keepdim=True)
    eta = ((factors - mean).abs().amax(-1, keepdim=True) / mean)[:, 0]
    low, high = rms_similarity_bounds(token_similarity(y).numpy(), eta.numpy())
    after = token_similarity(factors[..., None] * y).numpy()
    return {"theorem-c6-lower": Comparison(after, low, 1.0), "theorem-c6-upper": Comparison(after, high, 1.0)}
