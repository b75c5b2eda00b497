"""The jobs of a dataset: measure all of it or a slice of its seeds, or join the slices."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import xarray as xr

from collapse.config.base import Section
from collapse.errors import CollapseError
from collapse.store.dataset import described, open_dataset, publish_dataset, publish_pieces, spec_of
from collapse.store.parts import Parts

S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class Job(Generic[S]):
    """Inputs of a job that measures."""

    spec: S
    """Everything that determines the values, except the seeds."""
    parts: Parts
    """Finished parts of this job, from which it resumes after a stop."""
    seeds: range = range(0)
    """Seeds to measure; empty if the dataset is not sliced over seeds."""
    tokens: Path | None = None
    """Folder of the token store; None if the dataset reads no text."""


class Pieces(NamedTuple):
    """A measured dataset that is too large for memory: Datasets that follow each other along a dimension."""

    along: str
    parts: Iterator[xr.Dataset]


class Measuring(Protocol):
    """The module of a dataset, as `collapse.pipeline.datasets` names it."""

    Spec: type[Section]
    VARIABLES: Mapping[str, tuple[str, str, str]]
    """Name to (long name, units, source) of every variable and coordinate."""

    def measure(self, job: Job[Any]) -> xr.Dataset | Pieces:
        """Measure the Dataset of a job."""
        ...


class Joining(Protocol):
    """The module that joins a dataset's slices."""

    def join(self, slices: Sequence[xr.Dataset]) -> xr.Dataset:
        """One described Dataset from the slices, in order of ascending seeds."""
        ...


def run_job(module: Measuring, job: Job[Any], out: Path, origin: dict[str, Any]) -> None:
    """Measure, publish the Dataset and its manifest, and delete the parts.

    Args:
        module: The dataset's module.
        job: The job.
        out: `name.zarr`; its manifest is `name.json` beside it.
        origin: Provenance of the values, see `collapse.provenance`.
    """
    found = module.measure(job)
    along, pieces = found if isinstance(found, Pieces) else (None, [found])
    spec = job.spec.canonical() | ({"seeds": [job.seeds.start, job.seeds.stop]} if job.seeds else {})
    publish_pieces((described(piece, module.VARIABLES) for piece in pieces), along, out, spec, origin)
    job.parts.clear()


def join_slices(module: Joining, paths: Sequence[Path], out: Path, origin: dict[str, Any]) -> None:
    """Join slices in order of ascending seeds and publish the Dataset; its provenance includes those of the slices.

    Raises:
        CollapseError: if a slice is missing or damaged, or the slices have different specs, or their seeds overlap or
            leave a gap.
    """
    slices = [open_dataset(path) for path in paths]
    specs = [spec_of(data) for data in slices]
    ranges = [spec.pop("seeds") for spec in specs]
    for path, spec in zip(paths, specs, strict=True):
        if spec != specs[0]:
            raise CollapseError(f"{path}: measured with another config than {paths[0]}; measure the slices again")
    for path, ((_, last), (first, _)) in zip(paths[1:], pairwise(ranges), strict=True):
        if last != first:
            raise CollapseError(f"{path}: starts at seed {first}, and the slice before it ends before seed {last}")
    spec = {**specs[0], "seeds": [ranges[0][0], ranges[-1][1]]}
    origins = [json.loads(data.attrs["provenance"]) for data in slices]
    publish_dataset(module.join(slices), out, spec, origin | {"slices": origins})
