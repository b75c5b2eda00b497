"""Sums of attention matrices and of their second moments over a slice of initializations (for figures 8 and 9).

All initializations of the slice pass through the Post-Norm stack together, layer by layer. So only the sums of one
layer have the size n x n: attention is causal, and its rows are computed in blocks. The result of each layer is a part,
and a stopped job resumes after its last finished layer.
"""

from collections.abc import Iterator

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from collapse.errors import CollapseError
from collapse.model.decoder import Layer
from collapse.probes.network import Network
from collapse.probes.stack import StackSpec, window_of
from collapse.probes.triangle import pack, row_blocks
from collapse.progress import Progress
from collapse.store.job import Job, Pieces
from collapse.store.parts import Parts
from collapse.theory.attention import harmonic_number

TRIANGLE = "lower triangle, row after row"
VARIABLES = {
    "sum_p": (f"sum of P over initializations and heads, {TRIANGLE}", "1", "Appendix F.2"),
    "sum_pxxp": (f"sum of P X_1 X_1^T P^T over initializations and heads, {TRIANGLE}", "1", "Appendix F.1"),
    "sum_xx": (f"sum of X_1 X_1^T over initializations, {TRIANGLE}", "1", "Appendix F.1"),
    "prefix_error_seed": (
        "||P - C_n||_F/||C_n||_F for the mean P over one initialization's heads", "1", "Appendix F.2",
    ),
    "seed": ("seed of the initialization", "", "Appendix F.2"),
    "layer": ("layer, 1-based", "", "Section 2"),
}  # fmt: skip
"""Name to (long name, units, source)."""
SUMS = ("sum_p", "sum_pxxp", "sum_xx")


class Spec(StackSpec):
    """Everything that determines the sums, except the seeds."""


class Initializations:
    """The Post-Norm stacks of a slice of seeds, all before the same layer.

    Args:
        spec: What to measure.
        window: (n,) token ids.
        seeds: Seeds of the initializations.
        dtype: Type of the arithmetic and of the sums.
    """

    def __init__(self, spec: Spec, window: Tensor, seeds: range, dtype: torch.dtype = torch.float32) -> None:
        n = spec.model.sequence_length
        self.seeds = seeds
        self.layer = 0
        """Number of layers already passed."""
        self.networks: list[Network] = []
        self.x: list[Tensor] = []
        """X_1 of the next layer, (n, d) each."""
        for seed in seeds:
            network = Network(spec.model, seed, dtype)
            self.x.append(network.normalize(network.input("tokens", window, spec.input_rms)[None], None)[1][0])
            del network.embedding  # the largest matrix, no longer needed
            self.networks.append(network)
        self._sums = {name: torch.zeros(n, n, dtype=dtype) for name in SUMS}
        """Only entries on and below the diagonal count."""

    @torch.no_grad()
    def advance(self) -> xr.Dataset:
        """Pass every initialization through its next layer; returns the variables of `VARIABLES` for this layer."""
        self.layer += 1
        for total in self._sums.values():
            total.zero_()
        errors = []
        for index, network in enumerate(self.networks):
            layer, x = network.draw_layer(), self.x[index]
            branch, error = self._attend(network, layer, x)
            errors.append(error)
            x = network.normalize(x[None], branch)[1]
            self.x[index] = network.normalize(x, layer.ffn(x))[1][0]
        data = {name: (("layer", "entry"), pack(total.numpy())[None]) for name, total in self._sums.items()}
        coords = {"layer": [self.layer], "seed": list(self.seeds)}
        sums = xr.Dataset(data | {"prefix_error_seed": (("layer", "seed"), np.array([errors]))}, coords)
        for name in SUMS:
            sums[name].encoding["compressors"] = None  # digits of sums do not compress
        return sums

    def _attend(self, network: Network, layer: Layer, x: Tensor) -> tuple[Tensor, float]:
        """Add one initialization's P, P X X^T P^T and X X^T to the sums.

        Returns:
            Attn(X), (1, n, d), and the prefix error of the mean of P over heads.
        """
        n, width = x.shape
        queries, keys, values = (part[0] for part in layer.attention.project(x[None], network.rotary))
        heads = len(queries)
        queries = queries * queries.shape[-1] ** -0.5
        keys = keys.transpose(-1, -2)
        mixed = torch.empty_like(values)
        moved = x.new_empty(n, heads * width)  # P X of all heads side by side: its Gram matrix is the sum over heads
        uniform = 1 / torch.arange(1, n + 1, dtype=x.dtype).unsqueeze(-1)
        error_sq = 0.0
        for rows in row_blocks(n):
            past, size = slice(rows.stop), rows.stop - rows.start
            future = torch.ones(size, size, dtype=torch.bool).triu_(1)
            scores = queries[:, rows] @ keys[..., past]
            scores[..., rows].masked_fill_(future, -torch.inf)
            weights = torch.softmax(scores, -1)
            mixed[:, rows] = weights @ values[:, past]
            by_head = (weights.view(heads * size, -1) @ x[past]).view(heads, size, width)
            moved[rows] = by_head.transpose(0, 1).reshape(size, -1)
            over_heads = weights.sum(0)
            self._sums["sum_p"][rows, past] += over_heads
            self._sums["sum_pxxp"][rows, past].addmm_(moved[rows], moved[past].T)
            self._sums["sum_xx"][rows, past].addmm_(x[rows], x[past].T)
            difference = over_heads.div_(heads).sub_(uniform[rows])
            difference[:, rows].masked_fill_(future, 0)
            error_sq += float(torch.linalg.vector_norm(difference)) ** 2
        branch = layer.attention.merge(mixed[None])
        return branch, float(np.sqrt(error_sq / harmonic_number(n)))  # ||C_n||_F^2 is H_n

    def states(self) -> xr.Dataset:
        """The state from which to resume here."""
        generators = torch.stack([network.generator.get_state() for network in self.networks])
        states = xr.Dataset(
            {
                "x": (("seed", "position", "feature"), torch.stack(self.x).numpy()),
                "generator": (("seed", "byte"), generators.numpy()),
            }
        )
        states["x"].encoding["compressors"] = None
        return states

    def restore(self, layer: int, states: xr.Dataset) -> None:
        """Resume after `layer` layers, from the `states` saved there."""
        self.layer = layer
        self.x = [torch.tensor(x) for x in states["x"].values]
        for network, state in zip(self.networks, states["generator"].values, strict=True):
            network.generator.set_state(torch.tensor(state))


def _reached(parts: Parts, layers: int) -> tuple[int, xr.Dataset | None]:
    """Number of finished layers, and the states after them."""
    for layer in range(layers, 0, -1):
        states = parts.get(f"states{layer}")
        if states is not None and all(parts.get(f"layer{done}") is not None for done in range(1, layer + 1)):
            return layer, states
    return 0, None


def _finished(parts: Parts, layers: int) -> Iterator[xr.Dataset]:
    for layer in range(1, layers + 1):
        part = parts.get(f"layer{layer}")
        if part is None:
            raise CollapseError(f"{parts.folder}: layer {layer} was damaged after it was written: start the job again")
        yield part


@torch.no_grad()
def measure(job: Job[Spec]) -> Pieces:
    """Variables of `VARIABLES` summed over the seeds of a job, layer by layer; resumes after the last finished layer.

    Raises:
        CollapseError: if the tokens cannot be read.
    """
    parts, layers = job.parts, job.spec.model.layers
    reached, states = _reached(parts, layers)
    if reached < layers:
        stacks = Initializations(job.spec, window_of(job), job.seeds)
        if states is not None:
            stacks.restore(reached, states)
        del states
        progress = Progress(f"attention, seeds {job.seeds.start} to {job.seeds.stop - 1}", "layers")
        for layer in range(reached + 1, layers + 1):
            parts.put(f"layer{layer}", stacks.advance())
            parts.put(f"states{layer}", stacks.states())
            parts.drop(f"states{layer - 1}")
            progress.update(layer - reached, (layer - reached) / (layers - reached))
    return Pieces("layer", _finished(parts, layers))
