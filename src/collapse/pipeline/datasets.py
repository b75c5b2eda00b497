"""The table of datasets: all measurements that train no run.

To add a dataset, write a module with a `Spec`, a table `VARIABLES` and a function `measure` (see `collapse.store.job`),
and add its row here. The rules, `collapse probe`, `collapse plan` and `collapse gc` follow.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from collapse.config.base import Section
from collapse.config.model import ModelConfig
from collapse.config.root import Config
from collapse.pipeline import cost

Slice = dict[str, Any]
"""Part of a config as plain builtins."""


def keys(section: Section, *names: str) -> Slice:
    """Some keys of a section."""
    values = section.canonical()
    return {name: values[name] for name in names}


def _unnormed(model: ModelConfig) -> Slice:
    """A model at initialization: no epsilon, and fixed values for keys without effect there."""
    return model.canonical() | {"placement": "post", "tie_embeddings": True, "head_std": 0.02, "norm_eps": 0.0}


def _stack(config: Config) -> Slice:
    """A stack of layers at initialization, and its input."""
    stack = {"data": config.probe_data.canonical(), "model": _unnormed(config.model)}
    return stack | keys(config.probe, "window", "input_rms")


def _increments(config: Config) -> Slice:
    swept = ("inputs", "placements", "variance_scales", "variance_target", "deescalations", "sweep")
    return _stack(config) | keys(config.probe, *swept)


def _approximations(config: Config) -> Slice:
    probe = keys(config.probe, "placements", "variance_scales", "variance_target")
    return _stack(config) | probe | keys(config.monte_carlo, "seed", "weight_draws", "networks", "layer_stride")


def _moments(config: Config) -> Slice:
    """One pre-activation variance per variance factor."""
    scales = config.probe.variance_scales if config.probe.variance_target == "all" else [1.0]
    draws = {"seed": config.monte_carlo.seed, "draws": config.monte_carlo.moment_draws}
    return {"preact_variances": [scale / 3 for scale in scales], **draws}


def _concentration(config: Config) -> Slice:
    draws = config.monte_carlo
    return {"widths": draws.widths, "seed": draws.seed, "draws": draws.width_draws}


COMBINE = "probes.combine"
"""Module that puts slices together without computing anything."""


@dataclass(frozen=True)
class Dataset:
    """One dataset: `results/<name>/<place>/<dataset>.zarr`."""

    module: str
    """Module below `collapse` that measures it."""
    spec: Callable[[Config], Slice]
    """The slice of the config that determines it."""
    memory: Callable[[Config], int] = lambda config: 1_000_000_000
    """Bytes that one job needs."""
    minutes: int = 240
    """Time that one job requests on a cluster."""
    parallel: bool = True
    """Whether a job uses `execution.threads` CPU threads; otherwise one."""
    reads_tokens: bool = False
    """Whether it reads the text of the probes."""
    seeds: Callable[[Config], int] | None = None
    """Number of seeds, in slices of `probe.seeds_per_job` per job; None if one job measures the whole dataset."""
    join: str = COMBINE
    """Module that joins the slices."""
    keeps_slices: bool = True
    """Whether to keep joined slices, so that additional seeds need only new slices."""

    @property
    def place(self) -> str:
        """Folder below the results."""
        return "theory" if self.module.startswith("theory.") else "probes"


DATASETS: dict[str, Dataset] = {
    "increments": Dataset(
        module="probes.increments",
        spec=_increments,
        memory=cost.increments_memory,
        minutes=720,
        reads_tokens=True,
        seeds=lambda config: config.probe.seeds,
    ),
    "attention": Dataset(
        module="probes.attention_sums",
        spec=_stack,
        memory=cost.attention_memory,
        minutes=720,
        reads_tokens=True,
        seeds=lambda config: config.probe.initializations,
        join="probes.attention_errors",
        keeps_slices=False,
    ),
    "approximations": Dataset(
        module="probes.approximations",
        spec=_approximations,
        memory=cost.approximations_memory,
        minutes=720,
        reads_tokens=True,
    ),
    "collapsed_states": Dataset(
        module="checks.collapsed_states",
        spec=lambda config: keys(config.monte_carlo, "seed"),
        minutes=30,
        parallel=False,
    ),
    "swiglu_moment": Dataset(module="theory.moment_sampling", spec=_moments, parallel=False),
    "concentration": Dataset(module="theory.concentration", spec=_concentration, memory=lambda config: 2_000_000_000),
}
