"""Measurements that still lie on the devices, and their way to named arrays on the host: one reduction, one copy."""

import math
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor

from collapse.recording.recorder import means_and_sums, unpack

Array = NDArray[np.float64]


@dataclass
class Pending:
    """Measurements of consecutive steps of this process."""

    start: int
    """The first step."""
    rows: list[Tensor] = field(default_factory=list)
    """`Recorder.end_step` of every step."""
    losses: list[Tensor] = field(default_factory=list)
    """Mean loss of this process's sequences, scalars."""
    param_sq: list[Tensor] = field(default_factory=list)
    """This process's shares of the sublayers' squared parameter gradient norms, (2L,)."""
    host: list[dict[str, float]] = field(default_factory=list)
    """What the main process knows without measuring, by name."""

    def __len__(self) -> int:
        return len(self.host)

    def gather(self, layers: int, sequence_length: int) -> tuple[dict[str, Array], dict[str, Array]]:
        """The global batch's measurements, by name: (steps, L, 2) and (steps,); called by every process."""
        world_size = dist.get_world_size()
        means, sums = means_and_sums(torch.stack(self.rows), layers)
        means = torch.cat([means, torch.stack(self.losses)[:, None]], dim=1) / world_size
        sums = torch.cat([sums.double(), torch.stack(self.param_sq)], dim=1)
        if world_size > 1:
            dist.all_reduce(means)
            dist.all_reduce(sums)
        means_host, sums_host = means.double().cpu().numpy(), sums.double().cpu().numpy()
        measured = unpack(
            means_host[:, :-1], sums_host[:, : -2 * layers], sums_host[:, -2 * layers :], layers, world_size
        )
        stepwise = measured.stepwise | {"loss": means_host[:, -1]}
        stepwise |= {name: np.array([row[name] for row in self.host]) for name in self.host[0]}
        # Theorem 3.8 (i), averaged over sequences.
        slack = 2 / math.sqrt(sequence_length) * stepwise["collapse_epsilon"]
        stepwise["loss_floor"] = stepwise["freq_loss_sequence"] - stepwise["lm_head_norm"] * slack
        return measured.layerwise, stepwise
