"""The common part of the probes of a stack: their spec, their text, and the loop over seeds."""

from collections.abc import Callable
from itertools import count
from typing import Any

import torch
import xarray as xr
from torch import Tensor

from collapse.config.base import NonNegativeInt, Section
from collapse.config.model import ModelConfig
from collapse.config.probe import InputRms
from collapse.config.run import DataSpec
from collapse.corpus.store import TokenStore
from collapse.probes.combine import join
from collapse.probes.network import read_window
from collapse.progress import Progress
from collapse.store.job import Job


class StackSpec(Section):
    """A stack of layers at initialization, and its input."""

    data: DataSpec
    model: ModelConfig
    window: NonNegativeInt
    input_rms: InputRms


def window_of(job: Job[Any]) -> Tensor:
    """Token ids of the window that a job reads, (n,).

    Raises:
        CollapseError: if the token store is missing, damaged or too short.
    """
    assert job.tokens is not None, "the dataset's row in pipeline/datasets.py has reads_tokens"
    store = TokenStore.open(job.tokens)
    store.verify()
    return read_window(store.train, job.spec.model, job.spec.window)


@torch.no_grad()
def measure_seeds(job: Job[Any], measure: Callable[[int, Callable[[], None]], xr.Dataset]) -> xr.Dataset:
    """Measure the seeds of a job one by one; resumes after the seeds that are already finished.

    Args:
        job: The job.
        measure: Measures a seed and calls its second argument after every layer; returns a Dataset with the dimension
            `seed`.
    """
    found = {seed: part for seed in job.seeds if (part := job.parts.get(f"seed{seed}")) is not None}
    progress = Progress(f"seeds {job.seeds.start} to {job.seeds.stop - 1}", "layers")
    todo = (len(job.seeds) - len(found)) * job.spec.model.layers
    done = count(1)

    def tick() -> None:
        layers = next(done)
        progress.update(layers, layers / todo)

    for seed in job.seeds:
        if seed not in found:
            found[seed] = job.parts.put(f"seed{seed}", measure(seed, tick))
    return join([found[seed] for seed in job.seeds])
