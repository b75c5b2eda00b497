"""What the commands that evaluate the theory by simulation share: their options and what they publish."""

from argparse import ArgumentParser
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

import xarray as xr

from collapse.config.base import Section
from collapse.config.option import parse_option
from collapse.provenance import provenance
from collapse.store.dataset import described, publish_dataset
from collapse.store.parts import Parts

S = TypeVar("S", bound=Section)


@dataclass(frozen=True)
class Simulation(Generic[S]):
    """One job, as its command was told."""

    spec: S
    code: str
    parts: Parts
    out: Path

    def publish(self, data: xr.Dataset, variables: dict[str, tuple[str, str, str]]) -> None:
        """Write the finished Dataset and its manifest, and forget the parts."""
        origin = provenance(self.code, device="cpu")
        publish_dataset(described(data, variables), self.out, self.spec.canonical(), origin)
        self.parts.clear()


def simulation(name: str, about: str | None, section: type[S], arguments: Sequence[str] | None = None) -> Simulation[S]:
    """The job that a command line asks for.

    Args:
        name: Name of the module under `collapse.theory`.
        about: What the command does.
        section: What `--spec` must be.
        arguments: The command line; that of the process by default.

    Raises:
        CollapseError: where the spec is not valid.
    """
    parser = ArgumentParser(prog=f"python -m collapse.theory.{name}", description=about)
    parser.add_argument("--spec", required=True, help="what is evaluated, JSON")
    parser.add_argument("--code", required=True, help="fingerprint of the command's code")
    parser.add_argument("--scratch", required=True, type=Path, help="folder of finished parts of a job under way")
    parser.add_argument(
        "--out", required=True, type=Path, help="Zarr folder to write; its manifest is written beside it"
    )
    chosen = parser.parse_args(arguments)
    spec = parse_option(section, "--spec", chosen.spec)
    return Simulation(spec, chosen.code, Parts(chosen.scratch), chosen.out)
