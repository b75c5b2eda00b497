"""m(rho) of Theorem 3.4 by quadrature and, independently, by Monte Carlo (figure 7).

All points share the draws of two standard normal variables, so sampling errors are correlated over rho and over the
variances: a whole curve may lie above the quadrature, within its standard errors.
"""

import numpy as np
import xarray as xr

from collapse.config.base import NonNegativeInt, PositiveInt, Section
from collapse.progress import Progress
from collapse.store.job import Job
from collapse.store.parts import Parts
from collapse.theory.domain import Values
from collapse.theory.ffn import swiglu_moment

RHO = np.linspace(0, 1, 41)
BLOCK = 8192
"""Draws that share a random generator and are in memory together."""
PART_BLOCKS = 16
"""Number of blocks after which the sums are saved."""
DIMS = ("preact_variance", "rho")
VARIABLES = {
    "moment": ("m(rho) = E[SiLU(u) SiLU(v)] by quadrature", "1", "Theorem 3.4"),
    "moment_sampled": ("m(rho) by Monte Carlo: the mean over draws of (u, v)", "1", "Theorem 3.4"),
    "moment_sampled_se": ("standard error of the Monte Carlo mean; errors are correlated over rho", "1", "Theorem 3.4"),
    "preact_variance": ("variance of the pre-activations u and v, d sigma_W1^2", "1", "Theorem 3.4"),
    "rho": ("correlation of u and v", "1", "Theorem 3.4"),
}
"""Name to (long name, units, source)."""


class Spec(Section):
    """Everything that determines the moments."""

    preact_variances: list[float]
    seed: NonNegativeInt
    draws: PositiveInt


def silu(x: Values) -> Values:
    """SiLU(x) = x/(1 + exp(-x))."""
    return np.asarray(x / 2 * (1 + np.tanh(x / 2)))


def block_sums(variances: Values, seed: int, block: int, draws: int) -> Values:
    """Sums of SiLU(u) SiLU(v) and of its square over the draws of one block.

    Args:
        variances: (V,) variances of u and of v.
        seed: Seed of all blocks.
        block: Index of the block.
        draws: Number of draws to use, at most `BLOCK`.

    Returns:
        Sums, (2, V, R), with R points in `RHO`.
    """
    z = np.random.default_rng([seed, block]).standard_normal((2, BLOCK))[:, :draws]
    partner = RHO[:, None] * z[0] + np.sqrt(1 - RHO**2)[:, None] * z[1]
    sums = np.empty((2, len(variances), len(RHO)))
    for index, sigma in enumerate(np.sqrt(variances)):
        u, v = silu(sigma * z[0]), silu(sigma * partner)
        sums[:, index] = v @ u, v**2 @ u**2
    return sums


def sample_moments(spec: Spec, parts: Parts) -> tuple[Values, Values]:
    """Monte Carlo means of SiLU(u) SiLU(v) and their standard errors, (V, R) each.

    Saves the sums so far as parts; a stopped job resumes from the last part and gets the same numbers.

    Args:
        spec: Variances, seed and number of draws.
        parts: Finished parts of the job.

    Returns:
        Means and standard errors; the standard error of a single draw is NaN.
    """
    variances = np.asarray(spec.preact_variances)
    sums = np.zeros((2, len(variances), len(RHO)))
    firsts = range(0, spec.draws, BLOCK)
    progress = Progress("m(rho)", "draws")
    for start in range(0, len(firsts), PART_BLOCKS):
        blocks = range(start, min(start + PART_BLOCKS, len(firsts)))
        kept = parts.get(f"block{blocks.stop}")
        if kept is None:
            for block in blocks:
                sums += block_sums(variances, spec.seed, block, min(BLOCK, spec.draws - firsts[block]))
            parts.put(f"block{blocks.stop}", xr.Dataset({"sums": (("power", *DIMS), sums)}))
        else:
            sums = kept["sums"].values
        done = min(blocks.stop * BLOCK, spec.draws)
        progress.update(done, done / spec.draws)
    mean, mean_square = sums / spec.draws
    if spec.draws == 1:
        return mean, np.full_like(mean, np.nan)
    return mean, np.sqrt(np.maximum(mean_square - mean**2, 0) / (spec.draws - 1))


def measure(job: Job[Spec]) -> xr.Dataset:
    """Variables of `VARIABLES` with the dimensions (preact_variance, rho)."""
    variances = job.spec.preact_variances
    sampled, sampled_se = sample_moments(job.spec, job.parts)
    values = {
        "moment": swiglu_moment(RHO, np.asarray(variances)[:, None]),
        "moment_sampled": sampled,
        "moment_sampled_se": sampled_se,
    }
    return xr.Dataset(
        {name: (DIMS, array) for name, array in values.items()}, {"preact_variance": variances, "rho": RHO}
    )
