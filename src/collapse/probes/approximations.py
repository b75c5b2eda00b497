"""Which approximation makes Theorem 3.2 differ from the measured growth of token similarity (figure 1)?

Three approximations lead from the network to the theorem, and each may change the increment: C_n replaces P of every
head (Assumption C.2); a ratio of expectations replaces the expectation over W_V and W_O of a ratio (Assumption C.1,
part 4); R_eq(t) replaces the Gram matrix of the branch's input (part 3). This module applies them one after the other,
at layers of networks with the first seeds of the increments, and draws W_V and W_O of each layer many times. Under
Pre-Norm the branch reads RMS(X), so the third approximation also replaces the token similarity of RMS(X) by that of X.

Y = X + branch splits into its repeated mean row (Pi Y, "along" the ones vector) and its centred rows ("across").
tsim(Y) - tsim(X) is computed from the changes of the squared norms of both parts. This avoids cancellation: a change of
1e-6 has several correct digits in float32.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from collapse.config.base import NonNegativeInt, PositiveInt
from collapse.config.model import PlacementName
from collapse.config.probe import VarianceTarget
from collapse.model.decoder import Attention, Layer
from collapse.model.placements import PLACEMENTS
from collapse.probes.network import Network, attention_branch, attention_weights, prefix_mean
from collapse.probes.stack import StackSpec, window_of
from collapse.progress import Progress
from collapse.store.job import Job
from collapse.store.parts import Parts
from collapse.theory.attention import attention_increment
from collapse.theory.domain import Values

DIMS = ("placement", "variance_scale", "seed", "layer")
_SOURCE = "Theorem 3.2"
VARIABLES = {
    "tsim_x": ("token similarity of the attention sublayer's input X_1", "1", "Definition 2.1"),
    "mean_square": ("mean square entry of X_1, ||X_1||_F^2/(n d)", "1", _SOURCE),
    "amount": ("amount of attention s", "1", _SOURCE),
    "increment_true": (
        "change of token similarity by attention, mean over draws of (W_V, W_O), softmax P", "1", "Figure 1",
    ),
    "increment_true_se": ("standard error over draws of increment_true", "1", "Figure 1"),
    "increment_prefix": ("the same draws with C_n in place of every P", "1", "Assumption C.2"),
    "increment_prefix_se": ("standard error over draws of increment_prefix", "1", "Assumption C.2"),
    "increment_ratio": (
        "change by the ratio of expectations, exact for C_n and the actual Gram matrix", "1", "Assumption C.1 (4)",
    ),
    "increment_formula": ("closed form at the measured t and s", "1", _SOURCE),
    "gap_prefix": ("what prefix averaging changes: true - prefix", "1", "Assumption C.2"),
    "gap_prefix_se": ("standard error of gap_prefix, over paired draws", "1", "Assumption C.2"),
    "gap_ratio": ("what the ratio of expectations changes: prefix - ratio", "1", "Assumption C.1 (4)"),
    "gap_ratio_se": ("standard error of gap_ratio", "1", "Assumption C.1 (4)"),
    "gap_equal": ("what equal correlation changes: ratio - formula", "1", "Assumption C.1 (3)"),
    "placement": ("placement of the norm", "", "Section 2"),
    "variance_scale": ("factor on the standard variance of sublayer matrices", "1", "Figure 1"),
    "seed": ("seed of the network", "", "Section 4.1"),
    "layer": ("layer, 1-based", "", "Section 2"),
}  # fmt: skip
"""Name to (long name, units, source)."""


class Spec(StackSpec):
    """Everything that determines the approximation split."""

    placements: list[PlacementName]
    variance_scales: list[float]
    variance_target: VarianceTarget
    seed: NonNegativeInt
    weight_draws: PositiveInt
    networks: PositiveInt
    layer_stride: PositiveInt


class Site(NamedTuple):
    """An attention sublayer of a network, and its input."""

    attention: Attention
    x: Tensor
    """X_1, (n, d)"""
    read: Tensor
    """RMS(X_1), the input of the branch: X_1 itself under Post-Norm, (n, d)"""


class SquaredNorms(NamedTuple):
    """Squared norms of the mean row, repeated n times, and of the centred rows; or their changes. Numbers or arrays."""

    along: Any
    across: Any


def chosen_layers(spec: Spec) -> list[int]:
    """Layers to measure, 1-based: the first, every multiple of the stride, and the last."""
    depth = spec.model.layers
    return sorted({1, *range(spec.layer_stride, depth, spec.layer_stride), depth})


def sites(
    spec: Spec, window: Tensor, seed: int, dtype: torch.dtype = torch.float32
) -> Iterator[tuple[Tensor, dict[tuple[PlacementName, float], Site]]]:
    """For each layer of a network: the rotary table, and the attention sublayer of each placement and scale.

    Args:
        spec: What to measure.
        window: (n,) token ids.
        seed: Seed of the network.
        dtype: Arithmetic of the network.
    """
    network = Network(spec.model, seed, dtype)
    start = network.normalize(network.input("tokens", window, spec.input_rms)[None], None)
    states = {(placement, scale): start for placement in spec.placements for scale in spec.variance_scales}

    def advance(layer: Layer, placement: PlacementName, y: Tensor, normed: Tensor) -> tuple[Tensor, Tensor]:
        carry = PLACEMENTS[placement].carry
        y, normed = network.normalize(carry(y, normed), attention_branch(layer.attention, normed, network.rotary))
        return network.normalize(carry(y, normed), layer.ffn(normed))

    for layers in network.layers(spec.variance_scales, spec.variance_target):
        yield (
            network.rotary,
            {
                (placement, scale): Site(layers[scale].attention, PLACEMENTS[placement].carry(y, normed)[0], normed[0])
                for (placement, scale), (y, normed) in states.items()
            },
        )
        states = {key: advance(layers[key[1]], key[0], *state) for key, state in states.items()}


def split_rows(rows: Tensor) -> Tensor:
    """Centred rows, followed by sqrt(n) times the mean row: (..., n + 1, d) for (..., n, d), float64.

    This isometry commutes with products from the right. The two parts have the squared norms of Y - Pi Y and Pi Y.
    """
    rows = rows.double()
    mean = rows.mean(-2, keepdim=True)
    return torch.cat([rows - mean, mean * rows.shape[-2] ** 0.5], -2)


def squared_norms(rows: Tensor) -> SquaredNorms:
    """Squared norms of split rows (n + 1, d)."""
    squares = torch.linalg.vecdot(rows, rows).double()
    return SquaredNorms(float(squares[-1]), float(squares[:-1].sum()))


def changes(x: Tensor, branch: Tensor) -> SquaredNorms:
    """Excess of the squared norms of X + branch and X - branch over those of X; X and branch are split, (n + 1, d)."""
    squares = torch.linalg.vecdot(branch, branch).double()
    products = 2 * torch.linalg.vecdot(x, branch).double()
    rows = torch.stack([squares + products, squares - products])
    return SquaredNorms(rows[:, -1].numpy(), rows[:, :-1].sum(-1).numpy())


def increment(start: SquaredNorms, by: SquaredNorms) -> Any:
    """tsim(Y) - tsim(X), if X has the squared norms `start` and those of Y are larger by `by`."""
    total = start.along + start.across
    return (start.across * by.along - start.along * by.across) / (total * (total + by.along + by.across))


def draw_increments(
    start: Tensor, weighted: Tensor, prefix: Tensor, draws: int, scale: float, rng: np.random.Generator
) -> tuple[Values, Values]:
    """Increments for draws of (W_V, W_O) with variance scale/(3 d): with the softmax P and with C_n, (draws,) each.

    The increment of a draw is the mean over (W_V, W_O) and (-W_V, W_O), which are equally likely. This mean is unbiased
    and costs nothing. It cancels, up to second order, the inner products of X with the branch, which cause most of the
    noise and are 0 in expectation.

    Args:
        start: X, split, (n + 1, d).
        weighted: P_h RMS(X) of every head, split, (heads, n + 1, d).
        prefix: C_n RMS(X), split, (n + 1, d).
        draws: Number of draws.
        scale: Factor on the standard variance.
        rng: Source of the draws.
    """
    heads, _, width = weighted.shape
    norms = squared_norms(start)
    start = start.to(weighted.dtype)
    found = np.empty((2, draws))
    for draw in range(draws):
        matrices = torch.from_numpy(rng.standard_normal((2, width, width), np.float32)).to(weighted.dtype)
        values, output = matrices.mul_((scale / (3 * width)) ** 0.5)
        mixed = torch.bmm(weighted, values.view(width, heads, -1).transpose(0, 1))
        branches = mixed.transpose(0, 1).flatten(1) @ output, prefix @ (values @ output)
        found[:, draw] = [increment(norms, changes(start, branch)).mean() for branch in branches]
    return found[0], found[1]


def measure_site(site: Site, table: Tensor, scale: float, draws: int, rng: np.random.Generator) -> dict[str, float]:
    """All variables of `VARIABLES` at one attention sublayer.

    Args:
        site: The sublayer and its input.
        table: Rotary table.
        scale: Factor on the standard variance of W_V and W_O.
        draws: Number of draws of (W_V, W_O), at least 2.
        rng: Source of the draws.
    """
    n, width = site.x.shape
    start, dtype = split_rows(site.x), site.read.dtype
    weighted = split_rows(attention_weights(site.attention, site.read, table) @ site.read).to(dtype)
    prefix = split_rows(prefix_mean(site.read.double()))
    norms = squared_norms(start)
    t = norms.along / (norms.along + norms.across)
    mean_square = (norms.along + norms.across) / (n * width)
    true, prefixed = draw_increments(start, weighted, prefix.to(dtype), draws, scale, rng)
    branch = squared_norms(prefix)
    strength = scale**2 / 9  # d sigma_W^2: E ||A W||_F^2 = d sigma_W^2 ||A||_F^2 for every A
    ratio = float(increment(norms, SquaredNorms(strength * branch.along, strength * branch.across)))
    formula = float(attention_increment(strength / mean_square, t, n))

    def error(values: Values) -> float:
        return float(values.std(ddof=1) / draws**0.5)

    return {
        "tsim_x": t,
        "mean_square": mean_square,
        "amount": strength / mean_square,
        "increment_true": float(true.mean()),
        "increment_true_se": error(true),
        "increment_prefix": float(prefixed.mean()),
        "increment_prefix_se": error(prefixed),
        "increment_ratio": ratio,
        "increment_formula": formula,
        "gap_prefix": float(true.mean() - prefixed.mean()),
        "gap_prefix_se": error(true - prefixed),
        "gap_ratio": float(prefixed.mean() - ratio),
        "gap_ratio_se": error(prefixed),
        "gap_equal": ratio - formula,
    }


def measure_network(
    spec: Spec,
    window: Tensor,
    seed: int,
    layers: list[int],
    dtype: torch.dtype = torch.float32,
) -> Iterator[tuple[int, xr.Dataset]]:
    """Measure some layers of one network, first to last: yields the layer and `VARIABLES` with dimensions `DIMS`.

    Each layer has its own generator, seeded by the seeds of spec and network and the layer. So the draws do not depend
    on the other layers of a measurement. All placements and variance scales share them, so their errors are correlated.

    Args:
        spec: What to measure.
        window: (n,) token ids.
        seed: Seed of the network.
        layers: The layers, 1-based.
        dtype: Arithmetic.
    """
    wanted = set(layers)
    for number, (table, at) in enumerate(sites(spec, window, seed, dtype), 1):
        if number in wanted:
            found = {
                key: measure_site(
                    site, table, key[1], spec.weight_draws, np.random.default_rng([spec.seed, seed, number])
                )
                for key, site in at.items()
            }
            axes: tuple[Any, ...] = (spec.placements, spec.variance_scales, [seed], [number])
            shape = tuple(map(len, axes))
            yield (
                number,
                xr.Dataset(
                    {
                        name: (DIMS, np.reshape([values[name] for values in found.values()], shape))
                        for name in next(iter(found.values()))
                    },
                    dict(zip(DIMS, axes, strict=True)),
                ),
            )
            wanted.remove(number)
        if not wanted:
            return


@torch.no_grad()
def measure(job: Job[Spec]) -> xr.Dataset:
    """Variables of `VARIABLES` with the dimensions `DIMS`.

    Raises:
        CollapseError: if the tokens cannot be read.
    """
    return approximations(job.spec, window_of(job), job.parts)


def approximations(spec: Spec, window: Tensor, parts: Parts) -> xr.Dataset:
    """Variables of `VARIABLES` with the dimensions `DIMS`; resumes after the layers that are already finished."""
    layers = chosen_layers(spec)
    keys = [(seed, layer) for seed in range(spec.networks) for layer in layers]
    found = {key: data for key in keys if (data := parts.get(_part(*key))) is not None}
    missing = [key for key in keys if key not in found]
    progress, done = Progress("approximations", "layers"), 0
    for seed in range(spec.networks):
        for layer, data in measure_network(spec, window, seed, [layer for s, layer in missing if s == seed]):
            found[seed, layer] = parts.put(_part(seed, layer), data)
            done += 1
            progress.update(done, done / len(missing))
    networks = [
        xr.concat([found[seed, layer] for layer in layers], "layer", join="exact") for seed in range(spec.networks)
    ]
    return xr.concat(networks, "seed", join="exact")


def _part(seed: int, layer: int) -> str:
    return f"seed{seed}-layer{layer}"
