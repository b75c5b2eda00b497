"""Measurements on their way from the devices to named arrays on the host: few reductions, one copy."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from collapse.recording.recorder import means_and_sums, unpack
from collapse.recording.statistics import SUBLAYERS
from collapse.store.history import LAYERWISE_NAMES, STEPWISE_NAMES

Array = NDArray[np.float64]


@dataclass
class Pending:
    """Measurements of consecutive steps of this process."""

    start: int
    """The first step."""
    rows: list[Tensor | None] = field(default_factory=list)
    """`Recorder.end_step` of every step; None for a step that is not recorded."""
    losses: list[Tensor] = field(default_factory=list)
    """Mean loss of this process's sequences, nats, a scalar per step."""
    param_sq: list[Tensor] = field(default_factory=list)
    """This process's shares of the sublayers' squared parameter gradient norms, (2L,) per recorded step."""
    host: list[dict[str, float]] = field(default_factory=list)
    """What the host knows of every step, by name; all of it in the main process only."""

    def __len__(self) -> int:
        return len(self.host)

    def gather(self, layers: int, sequence_length: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """The global batch's measurements by name. Every process must call it.

        Returns:
            Layerwise arrays, (steps, L, 2), and stepwise arrays, (steps,). A step that is not recorded has NaN, except
            in its loss and what the host knows of it.
        """
        world_size = dist.get_world_size()
        recorded = [index for index, row in enumerate(self.rows) if row is not None]
        losses, nothing = torch.stack(self.losses), torch.empty(0, device=self.losses[0].device)
        means, sums = nothing, nothing
        if recorded:
            means, sums = means_and_sums(torch.stack([row for row in self.rows if row is not None]), layers)
            sums = torch.cat([sums.double(), torch.stack(self.param_sq)], dim=1)
        averages = torch.cat([losses, means.flatten()]) / world_size
        if world_size > 1:
            dist.all_reduce(averages)
            if recorded:
                dist.all_reduce(sums)
        averages_host, sums_host = averages.double().cpu().numpy(), sums.double().cpu().numpy()
        layerwise = {name: np.full((len(self), layers, len(SUBLAYERS)), np.nan) for name in LAYERWISE_NAMES}
        stepwise = {name: np.full(len(self), np.nan) for name in STEPWISE_NAMES}
        if recorded:
            means_host = averages_host[len(self) :].reshape(len(recorded), -1)
            param_sq = sums_host[:, -2 * layers :]
            measured = unpack(means_host, sums_host[:, : -2 * layers], param_sq, layers, world_size)
            for into, found in ((layerwise, measured.layerwise), (stepwise, measured.stepwise)):
                for name, values in found.items():
                    into[name][recorded] = values
        stepwise["loss"] = averages_host[: len(self)]
        for name in dict.fromkeys(name for row in self.host for name in row):
            stepwise[name] = np.array([row.get(name, np.nan) for row in self.host])
        # Theorem 3.8 (i), averaged over sequences.
        slack = 2 / math.sqrt(sequence_length) * stepwise["collapse_epsilon"]
        stepwise["loss_floor"] = stepwise["freq_loss_sequence"] - stepwise["lm_head_norm"] * slack
        return layerwise, stepwise
