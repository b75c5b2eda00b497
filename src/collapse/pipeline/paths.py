"""The layout of `results/<name>/`, defined only here."""

from dataclasses import dataclass
from pathlib import Path

from collapse.pipeline.datasets import DATASETS

FINISHED = "finished"
"""Subfolder of the finished run in the scratch folder of a training."""


@dataclass(frozen=True)
class ResultPaths:
    """Paths below a config's results folder."""

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
        """Scratch folder of a job: checkpoints and metric history, or finished parts. Never a Snakemake output."""
        return self.root / "scratch" / key

    def dataset(self, name: str) -> Path:
        """A dataset; its manifest is `name.json` beside it."""
        return self.root / DATASETS[name].place / f"{name}.zarr"

    def slice(self, name: str, first: int | str, last: int | str) -> Path:
        """The slice of a dataset for the seeds `first` to `last` - 1."""
        return self.root / DATASETS[name].place / "slices" / f"{name}-{first}-{last}.zarr"

    @property
    def summary(self) -> Path:
        """Table of runs."""
        return self.root / "summary.csv"

    @property
    def claims(self) -> Path:
        """Table of claims; `claims.json` beside it has the same content."""
        return self.root / "claims.csv"

    @property
    def report(self) -> Path:
        """The report page."""
        return self.root / "report.html"

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
