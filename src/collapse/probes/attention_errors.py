"""Mean attention matrices compared with prefix averaging, and the proxy of their second moments (figures 8 and 9).

`attention_sums` makes the slices. Expectations are over all initializations and heads.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from collapse.config.model import ModelConfig
from collapse.probes.jackknife import jackknife_error
from collapse.probes.triangle import congruence, symmetric_sum, unpack, unpack_symmetric
from collapse.progress import Progress
from collapse.store.dataset import described, spec_of
from collapse.theory.attention import harmonic_number

Array = NDArray[np.float64]

_PREFIX = "||E[P] - C_n||_F/||C_n||_F"
_ATTN = "delta_attn, relative error of E[P] E[X_1 X_1^T] E[P]^T for E[P X_1 X_1^T P^T] in Frobenius norm"
_PROJ = "delta_proj, the same of both projected on the mean row"
_SE = "standard error by the jackknife over blocks, of "
_WITHOUT = "without the block's seeds, "
VARIABLES = {
    "prefix_error": (_PREFIX, "1", "Figure 9"),
    "prefix_error_se": (_SE + _PREFIX, "1", "Figure 9"),
    "prefix_error_without": (_WITHOUT + _PREFIX, "1", "Figure 9"),
    "prefix_error_seed": (f"{_PREFIX}, E over the heads of one initialization", "1", "Figure 9"),
    "prefix_bias": (f"{_PREFIX} that infinitely many initializations would leave", "1", "Figure 9"),
    "delta_attn": (_ATTN, "1", "Figure 8"),
    "delta_attn_se": (_SE + _ATTN, "1", "Figure 8"),
    "delta_attn_without": (_WITHOUT + _ATTN, "1", "Figure 8"),
    "delta_proj": (_PROJ, "1", "Figure 8"),
    "delta_proj_se": (_SE + _PROJ, "1", "Figure 8"),
    "delta_proj_without": (_WITHOUT + _PROJ, "1", "Figure 8"),
    "block_seeds": ("number of seeds of the block", "", "Appendix F"),
    "layer": ("layer, 1-based", "", "Section 2"),
    "seed": ("seed of the initialization", "", "Section 4.1"),
    "block": ("first seed of a block of seeds that were summed together", "", "Appendix F"),
}
"""Name to (long name, units, source)."""
ERRORS = ("prefix_error", "delta_attn", "delta_proj")


class Sums(NamedTuple):
    """Sums over initializations (and heads) in one layer: packed lower triangles in float32, as in the store."""

    p: NDArray[Any]
    pxxp: NDArray[Any]
    xx: NDArray[Any]
    seeds: int

    @staticmethod
    def read(data: xr.Dataset, layer: int) -> "Sums":
        """The sums of a slice in a layer, counted from 0."""
        p, pxxp, xx = (data[name][layer].values for name in ("sum_p", "sum_pxxp", "sum_xx"))
        return Sums(p, pxxp, xx, data.sizes["seed"])

    def plus(self, block: "Sums") -> "Sums":
        """The sums over the seeds of both."""
        return Sums(self.p + block.p, self.pxxp + block.pxxp, self.xx + block.xx, self.seeds + block.seeds)

    def minus(self, block: "Sums") -> "Sums":
        """The sums over these seeds without those of a block."""
        return Sums(self.p - block.p, self.pxxp - block.pxxp, self.xx - block.xx, self.seeds - block.seeds)


def errors_of(sums: Sums, model: ModelConfig) -> tuple[float, float, float]:
    """Prefix error, delta_attn and delta_proj of the means over some initializations."""
    n, count = model.sequence_length, sums.seeds * model.heads
    positions = np.arange(1, n + 1)
    mean_p, exact = sums.p / count, sums.pxxp / count
    prefix = mean_p - np.repeat((1 / positions).astype(mean_p.dtype), positions)
    prefix_sq = np.sum(prefix**2, dtype=np.float64)
    difference = exact - congruence(unpack(mean_p, n), unpack_symmetric(sums.xx / sums.seeds, n))
    attn_sq = symmetric_sum(difference**2, n) / symmetric_sum(exact**2, n)
    # Projecting a matrix M from both sides gives 1^T M 1/n^2 in every entry.
    proj = abs(symmetric_sum(difference, n) / symmetric_sum(exact, n))
    return float(np.sqrt(prefix_sq / harmonic_number(n))), attn_sq**0.5, proj


def prefix_bias(error: Array, error_seed: Array) -> Array:
    """Prefix error in the limit of infinitely many initializations, (layers,).

    In expectation, a mean over N initializations has the squared error b^2 + v/N, and a single initialization b^2 + v.
    This solves for b; a negative estimate of b^2, which can occur by chance, gives 0.

    Args:
        error: Error of the mean over all initializations, (layers,).
        error_seed: Error of each initialization, (N, layers).

    Returns:
        b, (layers,); NaN for N = 1.
    """
    count = len(error_seed)
    if count == 1:
        return np.full(error.shape, np.nan)
    bias_sq: Array = (count * error**2 - (error_seed**2).mean(0)) / (count - 1)
    return np.sqrt(np.maximum(0, bias_sq))


def reduce_slices(slices: Sequence[xr.Dataset], model: ModelConfig) -> xr.Dataset:
    """The variables of `VARIABLES` from slices by ascending seeds; holds one layer in memory at a time."""
    layers, blocks = model.layers, len(slices)
    whole, without = np.empty((layers, len(ERRORS))), np.full((blocks, layers, len(ERRORS)), np.nan)
    progress = Progress("attention", "layers")
    for layer in range(layers):
        total = Sums.read(slices[0], layer)
        for data in slices[1:]:
            total = total.plus(Sums.read(data, layer))
        whole[layer] = errors_of(total, model)
        for block, data in enumerate(slices if blocks > 1 else []):
            without[block, layer] = errors_of(total.minus(Sums.read(data, layer)), model)
        progress.update(layer + 1, (layer + 1) / layers)
    sizes = [data.sizes["seed"] for data in slices]
    error_se = jackknife_error(whole, without, sizes)
    error_seed = np.concatenate([data["prefix_error_seed"].values for data in slices], axis=1).T
    variables: dict[str, tuple[tuple[str, ...], Array | list[int]]] = {
        "prefix_error_seed": (("seed", "layer"), error_seed),
        "prefix_bias": (("layer",), prefix_bias(whole[:, 0], error_seed)),
        "block_seeds": (("block",), sizes),
    }
    for index, name in enumerate(ERRORS):
        variables[name] = ("layer",), whole[:, index]
        variables[f"{name}_se"] = ("layer",), error_se[:, index]
        variables[f"{name}_without"] = ("block", "layer"), without[..., index]
    coords = {
        "layer": slices[0]["layer"].values,
        "seed": np.concatenate([data["seed"].values for data in slices]),
        "block": [int(data["seed"][0]) for data in slices],
    }
    return xr.Dataset(variables, coords)


def join(slices: Sequence[xr.Dataset]) -> xr.Dataset:
    """The errors over the seeds of all slices, in order of ascending seeds."""
    model = ModelConfig.model_validate(spec_of(slices[0])["model"])
    return described(reduce_slices(slices, model), VARIABLES)
