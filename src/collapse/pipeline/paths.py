"""Where results live: the one place that spells out the layout of `results/<name>/`."""

from dataclasses import dataclass
from pathlib import Path

FINISHED = "finished"
"""Folder of the finished run in its scratch folder."""


@dataclass(frozen=True)
class ResultPaths:
    """Paths under a config's results folder."""

    root: Path

    def corpus(self, corpus_id: str) -> Path:
        """Folder of the shards written by the `sample` source."""
        return self.root / "corpus" / corpus_id

    def tokens(self, tokens_id: str) -> Path:
        """Folder of a token store."""
        return self.root / "tokens" / tokens_id

    def run(self, run_id: str) -> Path:
        """Folder of a finished run."""
        return self.root / "runs" / run_id

    def scratch(self, key: str) -> Path:
        """Folder of a training under way: checkpoints and metric history. Never a Snakemake output."""
        return self.root / "scratch" / key

    def probe(self, name: str) -> Path:
        """Dataset of a probe; its manifest is `name.json` beside it."""
        return self.root / "probes" / f"{name}.zarr"

    def probe_slice(self, name: str, first: int | str, last: int | str) -> Path:
        """Dataset of a probe for seeds `first` to `last` - 1."""
        return self.root / "probes" / "slices" / f"{name}-{first}-{last}.zarr"

    def theory(self, name: str) -> Path:
        """Dataset of the theory; its manifest is `name.json` beside it."""
        return self.root / "theory" / f"{name}.zarr"

    @property
    def claims(self) -> Path:
        """Table of claims; `claims.json` beside it holds the same."""
        return self.root / "claims.csv"

    @property
    def figures(self) -> Path:
        """Folder of the figures."""
        return self.root / "figures"

    @property
    def logs(self) -> Path:
        """Folder of the rules' logs."""
        return self.root / "logs"

    @property
    def benchmarks(self) -> Path:
        """Folder of Snakemake's benchmark files."""
        return self.root / "benchmarks"


def results(name: str) -> ResultPaths:
    """The layout of a config's results, relative to the working directory."""
    return ResultPaths(Path("results") / name)
