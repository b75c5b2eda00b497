"""What the workflow's rules need to know of a config: the slice that each stage depends on, and its code's fingerprint.

Snakemake reruns a job when one of its parameters changes, and compares parameters as text. So every slice is one string
of canonical JSON: a value that changes place changes the string, a number spelled otherwise does not.
"""

from collections.abc import Mapping
from functools import cached_property
from glob import glob
from typing import Any

from collapse.config.corpus import ShardCorpus
from collapse.config.fingerprint import fingerprint
from collapse.config.gallery import Figure, figures
from collapse.config.identity import canonical_json
from collapse.config.paths import ResultPaths, results
from collapse.config.root import Config, parse
from collapse.config.run import RunSpec
from collapse.config.tokens import FileTokenizer


class Plan:
    """A validated config as the workflow sees it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.runs: dict[str, RunSpec] = config.runs
        self.figures: dict[str, Figure] = figures(config)

    @property
    def paths(self) -> ResultPaths:
        """Where the results go."""
        return results(self.config.name)

    @property
    def samples_corpus(self) -> bool:
        """Whether the corpus is one that the workflow fetches."""
        return self.config.corpus.source == "sample"

    @property
    def local_text(self) -> list[str]:
        """The user's own files that the token store is made from; a pattern that matches nothing is kept as it is."""
        corpus, tokenizer = self.config.corpus, self.config.tokens.tokenizer
        patterns = corpus.files if isinstance(corpus, ShardCorpus) else []
        shards = [path for pattern in patterns for path in (sorted(glob(pattern)) or [pattern])]  # noqa: PTH207
        return shards + ([tokenizer.path] if isinstance(tokenizer, FileTokenizer) else [])

    @cached_property
    def corpus(self) -> str:
        """What the corpus depends on."""
        return canonical_json(self.config.corpus.canonical())

    @cached_property
    def data(self) -> str:
        """What the token store depends on."""
        return canonical_json(self.config.data.canonical())

    @cached_property
    def analysis(self) -> str:
        """Thresholds of the analysis."""
        return canonical_json(self.config.analysis.canonical())

    @cached_property
    def style(self) -> str:
        """How figures look; which runs they show is in their inputs."""
        return canonical_json({k: v for k, v in self.config.figures.canonical().items() if k != "roles"})

    @cached_property
    def execution(self) -> str:
        """How trainings are executed; nothing is rerun when it changes."""
        return canonical_json(self.config.execution.canonical())

    @cached_property
    def whole(self) -> str:
        """The whole config."""
        return canonical_json(self.config.canonical())

    @cached_property
    def report(self) -> str:
        """What the report depends on: everything but the execution."""
        return canonical_json({k: v for k, v in self.config.canonical().items() if k != "execution"})

    @property
    def train_threads(self) -> int:
        """CPU threads of one training, over all its processes."""
        return self.config.execution.processes * self.config.execution.threads

    def run(self, run_id: str) -> str:
        """What a training depends on."""
        return canonical_json(self.runs[run_id].canonical())

    def manifests(self, run_ids: Any = None) -> list[str]:
        """Manifests of finished runs; of all of them by default."""
        return [str(self.paths.run(run_id) / "manifest.json") for run_id in (self.runs if run_ids is None else run_ids)]

    def figure_inputs(self, name: str, option: str) -> list[str]:
        """Manifests of the runs that a figure takes with an option of its command; none where no run plays the part."""
        return self.manifests(self.figures[name].runs.get(option, ()))

    @staticmethod
    def code(stage: str) -> str:
        """Fingerprint of the code of a stage, such as `training` or `figures.overview`."""
        return fingerprint(f"collapse.{stage}")


def plan(raw: Mapping[str, Any], source: str) -> Plan:
    """The plan of a config as Snakemake read it.

    Raises:
        ConfigError: with every problem at once.
    """
    return Plan(parse(raw, source))
