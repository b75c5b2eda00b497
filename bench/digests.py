"""Digests of all values below a results folder, to see whether a change of code, or of machine, changes a number.

    python bench/digests.py results/laptop > before.txt
    python bench/digests.py results/laptop --compare before.txt

One line per variable of every store, and per table, token file and picture. Provenance is left out: it tells where
numbers come from, and changes with every commit. The same spec on the same CPU gives the same digests.
"""

import argparse
import hashlib
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import xarray as xr
from numpy.typing import NDArray

FILES = ("tokens/*/*.bin", "tokens/*/tokenizer.model", "corpus/*/*.json.gz", "*.csv", "figures/*.png")


def _bytes(values: NDArray[np.generic]) -> bytes:
    """Content of an array; of text its characters, however xarray holds them."""
    return repr(values.tolist()).encode() if values.dtype.kind in "OUT" else np.ascontiguousarray(values).tobytes()


def store_digests(path: Path) -> Iterator[tuple[str, str]]:
    """(variable, digest) of a Zarr store: dimensions, type and values; and its spec."""
    with xr.open_zarr(path, consolidated=True, chunks=None) as data:
        for name in sorted(map(str, data.variables)):
            variable = data[name]
            kind = "text" if variable.dtype.kind in "OUT" else variable.dtype.str
            content = f"{variable.dims} {variable.shape} {kind} ".encode() + _bytes(variable.values)
            yield name, hashlib.sha256(content).hexdigest()[:16]
        yield "(spec)", hashlib.sha256(str(data.attrs.get("spec")).encode()).hexdigest()[:16]


def digests(results: Path) -> dict[str, str]:
    """Digest of every variable and file, by `path: variable` or `path`, relative to the results folder."""
    found = {}
    for path in sorted(p for p in results.rglob("*.zarr") if "scratch" not in p.relative_to(results).parts):
        for name, digest in store_digests(path):
            found[f"{path.relative_to(results).as_posix()}: {name}"] = digest
    for pattern in FILES:
        for path in sorted(results.glob(pattern)):
            found[path.relative_to(results).as_posix()] = hashlib.sha256(path.read_bytes()).hexdigest()[:16]
    return found


def main() -> None:
    """Print digests, or what differs from those of a file."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("results", type=Path, help="a results folder, such as results/laptop")
    parser.add_argument("--compare", type=Path, help="output of an earlier call")
    options = parser.parse_args()
    found = digests(options.results)
    if options.compare is None:
        print("\n".join(f"{digest}  {name}" for name, digest in found.items()))
        return
    lines = options.compare.read_text(encoding="utf-8").splitlines()
    before = {name: digest for digest, name in (line.split("  ", 1) for line in lines)}
    for name in sorted({*before, *found}):
        if before.get(name) != found.get(name):
            state = "new" if name not in before else "missing" if name not in found else "differs"
            print(f"{state:8} {name}")
    same = sum(before.get(name) == digest for name, digest in found.items())
    print(f"{same} of {len({*before, *found})} equal")
    sys.exit(same != len({*before, *found}))


if __name__ == "__main__":
    main()
