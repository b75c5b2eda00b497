"""What the probes' commands share: their options, and seeds done one by one, each kept as soon as it is measured."""

from argparse import ArgumentParser, Namespace
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Generic, TypeVar

import torch
import xarray as xr

from collapse.config.option import parse_option
from collapse.config.probe import StackSpec
from collapse.corpus.store import TokenStore
from collapse.probes.combine import join_seeds
from collapse.probes.memory import require_memory
from collapse.probes.network import read_window
from collapse.progress import Progress
from collapse.provenance import provenance
from collapse.store.dataset import described, publish_pieces
from collapse.store.parts import Parts

S = TypeVar("S", bound=StackSpec)


def options(name: str, about: str | None, seeds: bool = False) -> ArgumentParser:
    """Options of a probe: spec, tokens, code, scratch, out; and a half-open range of seeds."""
    parser = ArgumentParser(prog=f"python -m collapse.probes.{name}", description=about)
    parser.add_argument("--spec", required=True, help="what is measured, JSON")
    parser.add_argument("--tokens", required=True, type=Path, help="folder of the token store")
    if seeds:
        parser.add_argument("--seeds", required=True, type=int, nargs=2, help="first seed, and the one after the last")
    parser.add_argument("--code", required=True, help="fingerprint of the probe's code")
    parser.add_argument("--scratch", required=True, type=Path, help="folder of finished parts of a job under way")
    parser.add_argument(
        "--out", required=True, type=Path, help="Zarr folder to write; its manifest is written beside it"
    )
    return parser


@dataclass(frozen=True)
class Job(Generic[S]):
    """One probe job, as its command was told."""

    spec: S
    tokens: Path
    code: str
    scratch: Path
    out: Path
    seeds: range

    @staticmethod
    def of(chosen: Namespace, section: type[S]) -> "Job[S]":
        """The job of parsed options.

        Raises:
            CollapseError: where the spec is not valid.
        """
        spec = parse_option(section, "--spec", chosen.spec)
        seeds = range(*getattr(chosen, "seeds", (0, 0)))
        return Job(spec, chosen.tokens, chosen.code, chosen.scratch, chosen.out, seeds)

    def window(self) -> torch.Tensor:
        """Token ids of the window that is read, (n,).

        Raises:
            CollapseError: where the token store is missing or damaged, or too short.
        """
        store = TokenStore.open(self.tokens)
        store.verify()
        return read_window(store.train, self.spec.model, self.spec.window)

    def publish(self, data: xr.Dataset, variables: dict[str, tuple[str, str, str]]) -> None:
        """Write the finished Dataset and its manifest, and forget the parts."""
        self.publish_pieces([data], None, variables)

    def publish_pieces(
        self, pieces: Iterable[xr.Dataset], along: str | None, variables: dict[str, tuple[str, str, str]]
    ) -> None:
        """`publish` for Datasets that follow on each other along a dimension, one in memory at a time."""
        origin = provenance(self.code, device="cpu", threads=torch.get_num_threads())
        spec = self.spec.canonical() | ({"seeds": [self.seeds.start, self.seeds.stop]} if self.seeds else {})
        publish_pieces((described(piece, variables) for piece in pieces), along, self.out, spec, origin)
        Parts(self.scratch).clear()


def measure_seeds(
    job: Job[Any],
    memory_bytes: int,
    advice: str,
    measure: Callable[[int, Callable[[], None]], xr.Dataset],
    variables: dict[str, tuple[str, str, str]],
) -> None:
    """Measure a job's seeds one by one, going on from those that an earlier start has finished, and publish them.

    Args:
        job: The job.
        memory_bytes: What it is foreseen to take.
        advice: How to take less.
        measure: Seed, and what to call after every layer, to a Dataset with a `seed` dimension.
        variables: Descriptions, see `described`.

    Raises:
        CollapseError: where the memory does not suffice.
    """
    require_memory(memory_bytes, advice)
    torch.set_grad_enabled(False)
    parts = Parts(job.scratch)
    found = {seed: part for seed in job.seeds if (part := parts.get(f"seed{seed}")) is not None}
    progress = Progress(job.out.stem, "layers")
    todo = (len(job.seeds) - len(found)) * job.spec.model.layers
    done = count(1)

    def tick() -> None:
        layers = next(done)
        progress.update(layers, layers / todo)

    for seed in job.seeds:
        if seed not in found:
            found[seed] = parts.put(f"seed{seed}", measure(seed, tick))
    job.publish(join_seeds([found[seed] for seed in job.seeds]), variables)
