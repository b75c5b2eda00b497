"""One Dataset from the slices of seeds of a probe.

python -m collapse.probes.combine --slices ZARR... --code FINGERPRINT --out results/<name>/probes/increments.zarr
"""

import json
from argparse import ArgumentParser
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import xarray as xr

from collapse.errors import CollapseError, run_stage
from collapse.provenance import provenance
from collapse.store.dataset import load_dataset, publish_dataset, spec_of


def join_seeds(parts: Sequence[xr.Dataset]) -> xr.Dataset:
    """Datasets of different seeds as one; what has no dim `seed` is that of the first."""
    return xr.concat(parts, "seed", data_vars="minimal", coords="minimal", compat="override", join="exact")


def joint_spec(slices: Sequence[xr.Dataset]) -> dict[str, Any]:
    """The spec of slices together: that of each, and the whole range of seeds.

    Raises:
        CollapseError: where the slices are not of one spec, or their ranges of seeds leave a gap or overlap.
    """
    specs = [spec_of(data) for data in slices]
    ranges = [spec.pop("seeds") for spec in specs]
    if any(spec != specs[0] for spec in specs):
        raise CollapseError("--slices: these are slices of different specs; measure them all with the same config")
    for (_, last), (first, _) in pairwise(ranges):
        if last != first:
            raise CollapseError(
                f"--slices: seeds {last} and {first} do not follow on each other; give every slice once"
            )
    return {**specs[0], "seeds": [ranges[0][0], ranges[-1][1]]}


def _main() -> None:
    parser = ArgumentParser(prog="python -m collapse.probes.combine", description=__doc__)
    parser.add_argument("--slices", required=True, nargs="+", type=Path, help="Zarr folders, by ascending seeds")
    parser.add_argument("--code", required=True, help="fingerprint of this stage's code")
    parser.add_argument(
        "--out", required=True, type=Path, help="Zarr folder to write; its manifest is written beside it"
    )
    options = parser.parse_args()
    slices = [load_dataset(path) for path in options.slices]
    origins = [json.loads(data.attrs["provenance"]) for data in slices]
    publish_dataset(join_seeds(slices), options.out, joint_spec(slices), provenance(options.code, slices=origins))


if __name__ == "__main__":
    run_stage(_main)
