"""Effect of every sublayer on token similarity at initialization (figures 1 and 2, depth recursion)."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
import xarray as xr
from numpy.typing import NDArray
from torch import Tensor

from collapse.config.model import PlacementName
from collapse.config.probe import InputName, Sweep, VarianceTarget, settings
from collapse.model.decoder import Layer
from collapse.model.placements import PLACEMENTS
from collapse.pipeline.blocks import CHUNK_TOKENS
from collapse.probes.network import Network, attention_branch
from collapse.probes.stack import StackSpec, measure_seeds, window_of
from collapse.recording.statistics import SUBLAYERS, rms_spread
from collapse.store.job import Job
from collapse.theory.attention import attention_increment
from collapse.theory.depth import depth_recursion
from collapse.theory.ffn import ffn_increment
from collapse.theory.normalization import attention_row_norm

Array = NDArray[np.float64]

SETTING = ("input", "placement", "variance_scale", "deescalation", "seed")
SITE = ("layer", "sublayer")
VARIABLES = {
    "tsim_x": ("token similarity of the sublayer's input X_k", "1", "Definition 2.1"),
    "tsim_y": ("token similarity of the sublayer's output Y_k", "1", "Definition 2.1"),
    "tsim_normed": ("token similarity of RMS(Y_k)", "1", "Theorem C.6"),
    "tdiv_x": ("token diversity, 1 - token similarity, of X_k, from centred rows", "1", "Appendix B"),
    "tdiv_y": ("token diversity, 1 - token similarity, of Y_k, from centred rows", "1", "Appendix B"),
    "increment": ("measured change of token similarity, tsim(Y_k) - tsim(X_k)", "1", "Figure 1"),
    "mean_square": ("mean square entry of X_k, ||X_k||_F^2/(n d)", "1", "Theorem 3.2"),
    "amount": ("amount of attention s of the attention sublayer, xi of the FFN", "1", "Theorems 3.2 and 3.4"),
    "increment_predicted": ("closed form at the measured t and amount", "1", "Theorems 3.2 and 3.4, Corollary 3.3"),
    "tsim_y_recursion": (
        "token similarity of Y_k by iterating the closed forms from layer 1", "1", "Theorems 3.2 and 3.4",
    ),
    "rms_spread": ("spread of the RMSNorm factors of Y_k, eta = max |factor - mean|/mean", "1", "Theorem C.6"),
    "row_square": ("mean square entry of the rows of Y_k at a position, ||y_i||^2/d", "1", "Lemmas C.4 and C.5"),
    "row_square_predicted": ("expected ||y_i||^2/d of attention under Post-Norm", "1", "Lemma C.5"),
    "input": ("what enters the stack: embedded text, or Gaussian rows", "", "Section 4.1"),
    "placement": ("placement of the norm", "", "Section 2"),
    "variance_scale": ("factor on the standard variance of sublayer matrices", "1", "Figure 1"),
    "deescalation": ("a where P - a C_n takes the place of P", "1", "Corollary 3.3"),
    "seed": ("seed of the initialization", "", "Section 4.1"),
    "layer": ("layer, 1-based", "", "Section 2"),
    "sublayer": ("sublayer of the layer", "", "Section 2"),
    "position": ("position i of a row, harmonic mean over a bin of positions", "1", "Lemma C.5"),
}  # fmt: skip
"""Name to (long name, units, source)."""


class Spec(StackSpec):
    """Everything that determines the increments, except the seeds."""

    inputs: list[InputName]
    placements: list[PlacementName]
    variance_scales: list[float]
    variance_target: VarianceTarget
    deescalations: list[float]
    sweep: Sweep

    @property
    def settings(self) -> list[tuple[float, float]]:
        """Every setting to measure, as (variance scale, deescalation)."""
        return settings(self.variance_scales, self.deescalations, self.sweep)


def position_bins(n: int) -> NDArray[np.int64]:
    """Edges of logarithmically spaced bins of positions: bin b holds rows edges[b] to edges[b + 1] - 1.

    Positions count from 1, and every position is in exactly one bin.
    """
    return np.unique(np.rint(np.geomspace(1, n + 1, 25)).astype(np.int64))


def _bin_means(values: Array, edges: NDArray[np.int64]) -> Array:
    """Means over the bins of the last axis, whose entries are positions 1 to n."""
    return np.add.reduceat(values, edges[:-1] - 1, axis=-1) / np.diff(edges)


def _statistics(rows: Tensor) -> dict[str, Tensor]:
    """Squared row norms (B, n) of matrices (B, n, d), and tsim, tdiv and squared norm of each matrix (B,)."""
    row_sq = torch.linalg.vecdot(rows, rows)
    mean = rows.mean(-2, keepdim=True)
    along = rows.shape[-2] * mean.square().sum((-2, -1))
    across = torch.linalg.vector_norm(rows - mean, dim=(-2, -1)).square()
    total = along + across
    return {"row_sq": row_sq, "tsim": along / total, "tdiv": across / total, "norm_sq": total}


@dataclass
class Walk:
    """Sequences with the same weights and placement that pass through the stack together."""

    placement: PlacementName
    scale: float
    inputs: list[InputName]
    deescalations: list[float]
    y: Tensor
    normed: Tensor

    def __post_init__(self) -> None:
        self.post = PLACEMENTS[self.placement].x_is_normed
        a = torch.tensor(self.deescalations, dtype=torch.float64)
        self.a = a if bool(a.any()) else None
        self.x_stats = _statistics(self.normed if self.post else self.y)

    def advance(self, network: Network, layer: Layer, sublayer: str) -> dict[str, Tensor]:
        """Pass the sequences through one sublayer and measure it."""
        if sublayer == "attention":
            branch = attention_branch(layer.attention, self.normed, network.rotary, self.a)
        else:
            branch = layer.ffn(self.normed)
        carried = PLACEMENTS[self.placement].carry(self.y, self.normed)
        self.y, self.normed = network.normalize(carried, branch)
        x, y, normed = self.x_stats, _statistics(self.y), _statistics(self.normed)
        self.x_stats = normed if self.post else y
        return {
            "tsim_x": x["tsim"],
            "tsim_y": y["tsim"],
            "tsim_normed": normed["tsim"],
            "tdiv_x": x["tdiv"],
            "tdiv_y": y["tdiv"],
            "mean_square": x["norm_sq"] / self.y[0].numel(),
            "rms_spread": rms_spread(y["row_sq"].rsqrt()),
            "row_square": y["row_sq"] / self.y.shape[-1],
        }


def _walks(spec: Spec, inputs: dict[InputName, Tensor], network: Network) -> Iterator[Walk]:
    size = max(1, CHUNK_TOKENS // spec.model.sequence_length)
    for placement in spec.placements:
        for scale in spec.variance_scales:
            todo = [(name, a) for name in spec.inputs for setting, a in spec.settings if setting == scale]
            for first in range(0, len(todo), size):
                names, values = zip(*todo[first : first + size], strict=True)
                y, normed = network.normalize(torch.stack([inputs[name] for name in names]), None)
                yield Walk(placement, scale, list(names), list(values), y, normed)


@torch.no_grad()
def measure_seed(
    spec: Spec,
    window: Tensor,
    seed: int,
    dtype: torch.dtype = torch.float32,
    tick: Callable[[], None] = lambda: None,
) -> xr.Dataset:
    """All increments of one initialization.

    Args:
        spec: What to measure.
        window: (n,) token ids.
        seed: Seed of the initialization.
        dtype: Arithmetic of the network.
        tick: Called after every layer.

    Returns:
        Variables of `VARIABLES`, dims (input, placement, variance_scale, deescalation, seed, layer, sublayer); the row
        norms also have position. NaN in settings that are not measured.
    """
    network = Network(spec.model, seed, dtype)
    inputs = {name: network.input(name, window, spec.input_rms) for name in spec.inputs}
    edges = position_bins(spec.model.sequence_length)
    axes: tuple[Sequence[object], ...] = (
        spec.inputs, spec.placements, spec.variance_scales, spec.deescalations, [seed],
    )  # fmt: skip
    shape = (*(len(axis) for axis in axes), spec.model.layers, len(SUBLAYERS))
    found: dict[str, Array] = {}
    walks = list(_walks(spec, inputs, network))
    for index, layer in enumerate(network.layers(spec.variance_scales, spec.variance_target)):
        for sublayer, name in enumerate(SUBLAYERS):
            for walk in walks:
                measured = walk.advance(network, layer[walk.scale], name)
                where = (
                    [spec.inputs.index(name) for name in walk.inputs],
                    spec.placements.index(walk.placement),
                    spec.variance_scales.index(walk.scale),
                    [spec.deescalations.index(a) for a in walk.deescalations],
                    0, index, sublayer,
                )  # fmt: skip
                for key, tensor in measured.items():
                    values = tensor.double().numpy()
                    if key == "row_square":
                        values = _bin_means(values, edges)
                    found.setdefault(key, np.full(shape + values.shape[1:], np.nan))[where] = values
        tick()
    positions = np.arange(1.0, spec.model.sequence_length + 1)
    coords = dict(zip(SETTING, axes, strict=True)) | {
        "layer": np.arange(1, spec.model.layers + 1),
        "sublayer": list(SUBLAYERS),
        "position": 1 / _bin_means(1 / positions, edges),
    }
    dims = (*SETTING, *SITE)
    data = xr.Dataset({k: ((*dims, "position") if k == "row_square" else dims, v) for k, v in found.items()}, coords)
    return _with_predictions(data, spec, edges)


def _with_predictions(data: xr.Dataset, spec: Spec, edges: NDArray[np.int64]) -> xr.Dataset:
    """Add the values of the closed forms at the measured token similarities."""
    n, width, layers = spec.model.sequence_length, spec.model.width, spec.model.layers
    is_measured, is_attention = data["tsim_x"].notnull(), data["sublayer"] == "attention"
    t, square = (
        data["tsim_x"].fillna(0.5),
        data["mean_square"].fillna(1.0),
    )  # any values in their domain
    scale, a = data["variance_scale"], data["deescalation"]
    ffn_scale = scale if spec.variance_target == "all" else xr.ones_like(scale)
    amount = scale.where(is_attention, ffn_scale) ** 2 / 9 / square
    attention = xr.apply_ufunc(attention_increment, amount, t, n, a)
    predicted = attention.where(is_attention, xr.apply_ufunc(ffn_increment, amount, t, n, ffn_scale / 3))
    start = {"sublayer": "attention", "layer": 1}

    def recursion(placement: str) -> xr.DataArray:
        def run(scale: Array, t0: Array, a: Array, square: Array) -> Array:
            return depth_recursion(placement, n, layers, scale, t0, a, spec.variance_target, square).tsim_y

        of_placement = [part.sel(start, drop=True).sel(placement=placement, drop=True) for part in (t, square)]
        found: xr.DataArray = xr.apply_ufunc(run, scale, of_placement[0], a, of_placement[1], output_core_dims=[SITE])
        return found

    # Lemma C.5: alpha + beta/i; its mean over a bin needs the mean of 1/i.
    weight_variance = (1 - a) ** 2 * scale**2 / 9 / width
    first, last = (xr.apply_ufunc(attention_row_norm, i, t, n, width, weight_variance) / width for i in (1, n))
    beta = (first - last) / (1 - 1 / n)
    inverse = xr.DataArray(_bin_means(1 / np.arange(1.0, n + 1), edges), dims="position")
    rows = (first - beta + beta * inverse).where(is_attention & (data["placement"] == "post"))
    # Subtract the smaller of the two quantities, tsim or tdiv, because it has more correct digits.
    near_collapse = data["tdiv_x"] - data["tdiv_y"]
    added = {
        "increment": near_collapse.where(data["tsim_x"] > 0.5, data["tsim_y"] - data["tsim_x"]),
        "amount": amount,
        "increment_predicted": predicted,
        "tsim_y_recursion": xr.concat([recursion(name) for name in spec.placements], data["placement"]),
        "row_square_predicted": rows,
    }
    dims = (*SETTING, *SITE, "position")
    return data.assign(
        {name: v.where(is_measured).transpose(*dims, missing_dims="ignore") for name, v in added.items()}
    )


def measure(job: Job[Spec]) -> xr.Dataset:
    """Variables of `VARIABLES` for a job's seeds.

    Raises:
        CollapseError: if the tokens cannot be read.
    """
    window = window_of(job)

    def one(seed: int, tick: Callable[[], None]) -> xr.Dataset:
        return measure_seed(job.spec, window, seed, tick=tick)

    return measure_seeds(job, one)
