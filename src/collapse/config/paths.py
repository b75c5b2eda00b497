"""Where results live: the one place that spells out the layout of `results/<name>/`."""

from dataclasses import dataclass
from pathlib import Path


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
