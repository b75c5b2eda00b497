"""The recorder of one process: buffers that the taps write to, and what a step's worth of them amounts to."""

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from collapse.recording.statistics import DERIVED, FORWARD, SUBLAYERS, Moments
from collapse.recording.taps import GRADIENT_SCALE, Sequences, Tap

Array = NDArray[np.float64]


class _Buffers(NamedTuple):
    """What the taps of one micro-batch shape write to; Y, X is the second dimension of means and centred norms."""

    row_sq: Tensor
    means: Tensor
    centred_norms: Tensor
    gradient_sq: Tensor
    workspace: Tensor

    @staticmethod
    def empty(boundaries: int, batch: int, length: int, width: int, like: Tensor) -> "_Buffers":
        shapes = (
            (boundaries, batch, length),
            (boundaries, 2, batch, 1, width),
            (boundaries, 2, batch),
            (boundaries, 2),
            (batch, length, width),
        )
        return _Buffers(*(like.new_empty(shape) for shape in shapes))

    def tap(self, j: int, x_is_normed: bool, gradient_is_normed: bool) -> Tap:
        y, x = (Sequences(self.means[j, k], self.centred_norms[j, k]) for k in (0, 1))
        grad_x_sq, grad_y_sq = self.gradient_sq[j]
        return Tap(self.row_sq[j], y, x, grad_x_sq, grad_y_sq, self.workspace, x_is_normed, gradient_is_normed)


class Recorder:
    """Collects the quantities of docs/metrics.md from every micro-batch of a step, and stays on the device.

    Forward statistics are means over sequences, hence over micro-batches and ranks of equal size. Squared gradient
    norms are sums over them. A step is: any number of micro-batches, each a forward pass, a
    backward pass and a `collect`, and then one `end_step`.

    Args:
        layers: number of layers L; there are 2L + 1 boundaries.
        width: model dimension d.
        x_is_normed: whether a sublayer's input is the normalized output of the boundary before it (Post-Norm).
        device: where the model lives.
        dtype: of the statistics; no narrower than the model's.
    """

    def __init__(
        self,
        layers: int,
        width: int,
        x_is_normed: bool,
        device: torch.device | str = "cpu",
        dtype: torch.dtype = torch.float32,
    ) -> None:
        self.layers = layers
        self.width = width
        self.x_is_normed = x_is_normed
        self.boundaries = 2 * layers + 1
        self._forward_is_normed = [x_is_normed] * (self.boundaries - 1) + [True]  # the LM head's input is RMS(Y)
        self._taps: dict[tuple[int, int], tuple[_Buffers, list[Tap]]] = {}
        self._gradient_sq = torch.zeros(self.boundaries, 2, device=device, dtype=dtype)
        self._current: _Buffers | None = None
        self._reset()

    def _reset(self) -> None:
        self._forward = self._gradient_sq.new_zeros(len(FORWARD), self.boundaries)
        self._epsilon = self._gradient_sq.new_zeros(())
        self._micro_batches = 0
        self._gradient_sq.zero_()

    def taps(self, batch: int, length: int) -> list[Tap]:
        """One tap a boundary, for a micro-batch of (batch, length) token ids."""
        if (batch, length) not in self._taps:
            buffers = _Buffers.empty(self.boundaries, batch, length, self.width, like=self._gradient_sq)
            taps = [buffers.tap(j, normed, self.x_is_normed) for j, normed in enumerate(self._forward_is_normed)]
            self._taps[batch, length] = buffers, taps
        self._current, taps = self._taps[batch, length]
        return taps

    @torch.no_grad()
    def collect(self) -> None:
        """Reduce what the micro-batch that has just gone forward and backward has left behind."""
        if self._current is None:
            raise RuntimeError("collect() before any forward pass with this recorder's taps")
        buffers, self._current = self._current, None
        parts = torch.stack([buffers.means.square().sum((-2, -1)), buffers.centred_norms.square()])
        y, x = parts[:, :, 0], parts[:, :, 1]
        gradient_sq = buffers.gradient_sq
        if not self.x_is_normed:  # X is Y, but in front of the LM head
            x = torch.cat([y[:, :-1], x[:, -1:]], dim=1)
            gradient_sq = gradient_sq[:, 1:].expand_as(gradient_sq)
        moments = Moments(self.width, buffers.row_sq, *y, *x)
        self._forward += torch.stack([metric.value(moments).mean(-1) for metric in FORWARD])
        self._epsilon += moments.x_centred_sq[-1].sqrt().mean()
        self._gradient_sq += gradient_sq
        self._micro_batches += 1

    def end_step(self) -> Tensor:
        """Everything that the step measured, one vector on the device (see `unpack`); starts the next step."""
        count = self._micro_batches
        row = torch.cat(
            [(self._forward / count).flatten(), (self._epsilon / count).reshape(1), self._gradient_sq.flatten()]
        )
        self._reset()
        return row


@dataclass(frozen=True)
class Unpacked:
    """Steps' measurements under their public names."""

    layerwise: dict[str, Array]
    """Name to (steps, L, 2)."""
    stepwise: dict[str, Array]
    """Name to (steps,)."""


def means_and_sums(rows: Tensor, layers: int) -> tuple[Tensor, Tensor]:
    """Split recorded rows (steps, ...) into what is averaged over ranks, and what is summed."""
    split = len(FORWARD) * (2 * layers + 1) + 1
    return rows[:, :split], rows[:, split:]


def unpack(means: Array, sums: Array, param_sq: Array, layers: int, world_size: int) -> Unpacked:
    """Recorded rows as named arrays.

    The engine scales each process's loss to the mean over its own sequences, never by the world size: squared gradient
    norms of the global mean loss are sums over ranks over the squared world size.

    Args:
        means: (steps, M), averaged over ranks.
        sums: (steps, S), summed over ranks.
        param_sq: (steps, 2L), squared norms of the sublayers' averaged parameter gradients, summed over ranks.
        layers: number of layers L.
        world_size: number of data-parallel processes.
    """
    boundaries = 2 * layers + 1
    steps = len(means)
    shape = (steps, layers, len(SUBLAYERS))
    forward = means[:, :-1].reshape(steps, len(FORWARD), boundaries)
    gradient = np.sqrt(sums.reshape(steps, boundaries, 2) / GRADIENT_SCALE) / world_size
    layerwise: dict[str, Array] = {}
    final: dict[str, Array] = {}
    for index, metric in enumerate(FORWARD):
        at = forward[:, index]
        layerwise[metric.name] = (at[:, :-1] if metric.of == "X" else at[:, 1:]).reshape(shape)
        final[metric.name] = at[:, -1]
    layerwise["grad_x"] = gradient[:, :-1, 0].reshape(shape)
    layerwise["grad_y"] = gradient[:, 1:, 1].reshape(shape)
    layerwise["param_grad"] = np.sqrt(param_sq).reshape(shape)
    inputs = layerwise | {"grad_next": gradient[:, 1:, 0].reshape(shape)}
    with np.errstate(divide="ignore", invalid="ignore"):
        for derived in DERIVED:
            layerwise[derived.name] = derived.value(inputs)
    stepwise = {"tsim_final": final["tsim_x"], "tdiv_final": final["tdiv_x"], "collapse_epsilon": means[:, -1]}
    return Unpacked(layerwise, stepwise)
