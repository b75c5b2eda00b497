"""How xi_1 and xi_2 concentrate around their conditional expectations as the width grows (Lemmas C.11 and C.12).

For Y = X + A W, with A = C_n X for attention and A = R_s for SwiGLU, xi_1 = ||Pi Y||_F^2/||Pi X||_F^2 and
xi_2 = ||Y||_F^2/||X||_F^2. Each width has a few realizations, each with its own draw of X, and of (W_1, W_3) for the
SwiGLU branch. Each realization has many draws of W (W_2 for SwiGLU). As in the lemmas, W is i.i.d. Gaussian. It has the
variance of standard initialization: 1/(9 d), that of W_V W_O, for attention, and 1/(3 d_ff) for W_2.
"""

from typing import NamedTuple

import numpy as np
import xarray as xr

from collapse.config.base import NonNegativeInt, PositiveInt, Section
from collapse.progress import Progress
from collapse.store.job import Job
from collapse.theory.attention import prefix_average, token_correlation
from collapse.theory.domain import Values
from collapse.theory.ffn import swiglu_moment
from collapse.theory.moment_sampling import silu

REALIZATIONS = 4
"""Realizations of X, W_1 and W_3, which share the draws of W; their scatter is part of the measurement error."""
SEQUENCE_LENGTH = 128
SIMILARITY = 0.3
"""Approximate token similarity of X, in the regime t >= t_0 > 0 for which the paper uses the lemmas."""
FFN_RATIO = 3
"""d_ff/d of the paper."""
BRANCHES = ("attention", "ffn")
QUANTITIES = ("xi_1", "xi_2")
MULTIPLES = np.arange(0.5, 4.25, 0.25)
"""Thresholds epsilon, in standard deviations."""
ENOUGH = 10
"""Least number of draws beyond a threshold for its tail to count for the exponent."""
BATCH_NUMBERS = 2**22
"""Most random numbers in memory at once."""

_DIMS = ("branch", "quantity", "width", "realization")
VARIABLES = {
    "expected": ("conditional expectation of xi given X and P, or X and R_s", "1", "Lemmas C.11 and C.12"),
    "mean": ("mean of xi over draws of W, or of W_2", "1", "Lemmas C.11 and C.12"),
    "mean_se": ("standard error of the mean", "1", "Lemmas C.11 and C.12"),
    "deviation": ("standard deviation of xi over draws", "1", "Lemmas C.11 and C.12"),
    "deviation_expected": ("conditional standard deviation of xi, exact for Gaussian W", "1", "proof of Lemma C.11"),
    "premise": (
        "||R_s||_F^2 (xi_1: ||Pi R_s||_F^2) over its expectation; the lemma assumes at most 2", "1", "Lemma C.12",
    ),
    "epsilon": ("threshold on |xi - E xi|", "1", "Lemmas C.11 and C.12"),
    "tail": ("share of draws with |xi - E xi| >= epsilon", "1", "Lemmas C.11 and C.12"),
    "rate": ("the bound's exponent at epsilon without its constant: min{...}", "1", "Lemmas C.11 and C.12"),
    "exponent": (
        "largest c for which 4 exp(-c rate) bounds every tail of enough draws", "1", "Lemmas C.11 and C.12",
    ),
    "branch": ("branch that is added to X", "", "Section 2"),
    "quantity": ("what concentrates: xi_1 of the projection Pi Y, xi_2 of Y", "", "Appendix C.7"),
    "width": ("model width d", "1", "Section 2"),
    "realization": ("realization of X, and of W_1 and W_3", "", "Appendix C.7"),
    "threshold": ("epsilon in measured standard deviations", "1", "Appendix C.7"),
}  # fmt: skip
"""Name to (long name, units, source)."""


class Spec(Section):
    """Everything that determines the concentration at growing width."""

    widths: list[int]
    seed: NonNegativeInt
    draws: PositiveInt


class Update(NamedTuple):
    """Y = X + A W with Gaussian W, given X and A."""

    x: Values
    """(n, d)"""
    a: Values
    """(n, k)"""
    variance: float
    """Variance of an entry of W, which is (k, d)."""
    premise: Values
    """Squared norms of Pi A and A, divided by their expectations; NaN if no lemma needs them, (2,)"""


def equal_correlation_rows(width: int, rng: np.random.Generator) -> Values:
    """X (n, d) with rows of squared norm d: a common part, plus a separate random part orthogonal to it.

    The shares of both parts give the rows the correlation rho(t) at t = `SIMILARITY`. Inner products of the separate
    parts change the correlation of two rows by about (1 - rho)/sqrt(d).
    """
    rho = token_correlation(SIMILARITY, SEQUENCE_LENGTH)
    common, own = rng.standard_normal(width), rng.standard_normal((SEQUENCE_LENGTH, width))
    common /= np.linalg.norm(common)
    own -= np.outer(own @ common, common)
    own /= np.linalg.norm(own, axis=1, keepdims=True)
    return np.asarray(width**0.5 * (np.sqrt(rho) * common + np.sqrt(1 - rho) * own))


def update(branch: str, width: int, seed: int, realization: int = 0) -> Update:
    """The update of the branch `attention` or `ffn` at a width, for one realization."""
    x = equal_correlation_rows(width, np.random.default_rng([seed, width, realization, 0]))
    if branch == "attention":
        return Update(x, prefix_average(len(x)) @ x, 1 / (9 * width), np.full(2, np.nan))
    hidden = FFN_RATIO * width
    gate, up = np.random.default_rng([seed, width, realization, 1]).normal(0, (3 * width) ** -0.5, (2, width, hidden))
    r = silu(x @ gate) * (x @ up)
    gram = x @ x.T
    expected = hidden / (3 * width) * gram * swiglu_moment(np.clip(gram / width, -1, 1), 1 / 3)
    squared_norms = np.array([_projected(r), (r**2).sum()])
    return Update(x, r, 1 / (3 * hidden), squared_norms / [expected.sum() / len(x), np.trace(expected)])


def _projected(rows: Values) -> float:
    """||Pi rows||_F^2."""
    return float(len(rows) * (rows.mean(0) ** 2).sum())


def sample(given: Update, draws: int, rng: np.random.Generator) -> Values:
    """xi_1 and xi_2 for independent draws of W: (2, draws).

    With the singular value decomposition A = U S V^T, only V^T W matters, which is i.i.d. Gaussian with the same
    variance. So min(n, k) d random numbers per draw, instead of k d, give the exact distribution.
    """
    x, width = given.x, given.x.shape[1]
    u, s, _ = np.linalg.svd(given.a, full_matrices=False)
    u *= s
    cross, mean_u, mean_x = (u.T @ x).ravel(), u.mean(0), x.mean(0)
    size = max(1, BATCH_NUMBERS // cross.size)
    xi = np.empty((2, draws))
    for first in range(0, draws, size):
        batch = slice(first, min(first + size, draws))
        z = rng.normal(0, given.variance**0.5, (batch.stop - first, len(s), width))
        xi[0, batch] = ((mean_x + mean_u @ z) ** 2).sum(-1) / (mean_x**2).sum()
        quadratic = np.einsum("bkd,bkd->bk", z, z) @ s**2
        xi[1, batch] = 1 + (2 * z.reshape(len(z), -1) @ cross + quadratic) / (x**2).sum()
    return xi


def measure_width(branch: str, width: int, seed: int, draws: int) -> xr.Dataset:
    """Variables of `VARIABLES` for one branch and width, dims (branch, quantity, width, realization, threshold).

    Args:
        branch: One of `BRANCHES`.
        width: Model width d.
        seed: Seed of all draws.
        draws: Total number of draws of W over all realizations.
    """
    found = [realize(branch, width, seed, index, draws // REALIZATIONS) for index in range(REALIZATIONS)]
    return xr.concat(found, "realization", join="exact")


def realize(branch: str, width: int, seed: int, realization: int, draws: int) -> xr.Dataset:
    """The result of `measure_width` for one realization and its draws of W."""
    given = update(branch, width, seed, realization)
    xi = sample(given, draws, np.random.default_rng([seed, width, realization, 2 + BRANCHES.index(branch)]))
    x, a, variance = given.x, given.a, given.variance
    mean_x, mean_a = x.mean(0), a.mean(0)
    scale = np.array([_projected(x), (x**2).sum()])
    share = variance * np.array([_projected(a), (a**2).sum()]) / scale  # sigma^2 ||A||_F^2/||X||_F^2
    linear = np.array([(mean_x**2).sum() * (mean_a**2).sum() * len(x) ** 2, ((a.T @ x) ** 2).sum()])
    quadratic = np.array([_projected(a) ** 2, ((a @ a.T) ** 2).sum()])
    expected = 1 + width * share
    deviation = xi.std(1, ddof=1)
    epsilon = deviation[:, None] * MULTIPLES
    tail = (np.abs(xi - expected[:, None])[:, None] >= epsilon[..., None]).mean(-1)
    rate = np.minimum(epsilon**2 / np.maximum(share, width * share**2)[:, None], epsilon / share[:, None])
    with np.errstate(divide="ignore"):
        allowed = np.where(tail * draws >= ENOUGH, np.log(4 / tail) / rate, np.inf).min(-1)
    values = {
        "expected": expected,
        "mean": xi.mean(1),
        "mean_se": deviation / draws**0.5,
        "deviation": deviation,
        "deviation_expected": np.sqrt(4 * variance * linear + 2 * width * variance**2 * quadratic) / scale,
        "premise": given.premise,
        "epsilon": epsilon,
        "tail": tail,
        "rate": rate,
        "exponent": allowed,
    }
    return xr.Dataset(
        {
            name: ((*_DIMS, "threshold")[: array.ndim + 3], np.expand_dims(array, (0, 2, 3)))
            for name, array in values.items()
        },
        {
            "branch": [branch],
            "quantity": list(QUANTITIES),
            "width": [width],
            "realization": [realization],
            "threshold": MULTIPLES,
        },
    )


def measure(job: Job[Spec]) -> xr.Dataset:
    """Variables of `VARIABLES`; resumes after the branches and widths that are already finished."""
    spec, parts = job.spec, job.parts
    progress = Progress("concentration", "widths")
    sites = [(branch, width) for branch in BRANCHES for width in spec.widths]
    cost = np.cumsum([min(SEQUENCE_LENGTH, width) * width for _, width in sites])
    found: dict[str, list[xr.Dataset]] = {branch: [] for branch in BRANCHES}
    for done, (branch, width) in enumerate(sites):
        kept = parts.get(f"{branch}{width}")
        found[branch].append(
            parts.put(f"{branch}{width}", measure_width(branch, width, spec.seed, spec.draws)) if kept is None else kept
        )
        progress.update(done + 1, float(cost[done] / cost[-1]))
    return xr.concat([xr.concat(found[branch], "width", join="exact") for branch in BRANCHES], "branch", join="exact")
