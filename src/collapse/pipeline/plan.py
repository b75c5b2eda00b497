"""A config as the workflow sees it: for each job, its slice of the config, the path of its result, and its code.

Snakemake reruns a job when one of its parameters changes, and compares parameters as text. So every slice is one string
of canonical JSON: a value under a different key changes the string, a different notation of a number does not.
"""

import json
from collections.abc import Callable, Mapping
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any, TypeVar

from collapse.config.corpus import CorpusConfig, ShardCorpus
from collapse.config.execution import ExecutionConfig
from collapse.config.identity import canonical_json, digest
from collapse.config.root import Config, parse
from collapse.config.run import DataSpec, RunSpec
from collapse.config.tokens import FileTokenizer
from collapse.files import write_atomic
from collapse.pipeline.datasets import COMBINE, DATASETS
from collapse.pipeline.fingerprint import fingerprint
from collapse.pipeline.gallery import Figure, figures
from collapse.pipeline.paths import ResultPaths, results

T = TypeVar("T")
SNAPSHOTS = Path(".snakemake/collapse")
"""Copies of the config for the jobs, as Snakemake read it: on one machine, later edits affect only the next start."""


class Plan:
    """A validated config as the workflow sees it."""

    def __init__(self, config: Config) -> None:
        self.config = config
        self.runs: dict[str, RunSpec] = config.runs
        self.figures: dict[str, Figure] = figures(config)

    @staticmethod
    def code(module: str) -> str:
        """Fingerprint of the code of a stage, such as `training` or `figures.overview`."""
        return fingerprint(f"collapse.{module}")

    def snapshot(self) -> str:
        """Path of a copy of the whole config, for the commands of the jobs; writes it if it is missing."""
        path = SNAPSHOTS / f"{self.config.name}-{digest(self.config.canonical())}.json"
        if not path.exists():
            write_atomic(path, json.dumps(self.config.canonical(), indent=1) + "\n")
        return str(path)

    @property
    def paths(self) -> ResultPaths:
        """Paths of the results."""
        return results(self.config.name)

    # Text.

    @cached_property
    def token_stores(self) -> dict[str, DataSpec]:
        """The token stores of the runs and of the probes, by id."""
        return {data.tokens_id: data for data in (self.config.data, self.config.probe_data)}

    @cached_property
    def corpora(self) -> dict[str, CorpusConfig]:
        """Corpora that the workflow fetches, by id."""
        stores = self.token_stores.values()
        return {data.corpus_id: data.corpus for data in stores if data.corpus.source == "sample"}

    def fetched(self, tokens_id: str) -> str | None:
        """Manifest of the corpus of a token store; None if the workflow does not fetch it."""
        corpus_id = self.token_stores[tokens_id].corpus_id
        return str(self.paths.corpus(corpus_id) / "manifest.json") if corpus_id in self.corpora else None

    def local_text(self, tokens_id: str) -> list[str]:
        """The user's own input files of a token store; a pattern without matches stays as it is."""
        data = self.token_stores[tokens_id]
        corpus, tokenizer = data.corpus, data.tokens.tokenizer
        patterns = corpus.files if isinstance(corpus, ShardCorpus) else []
        shards = [path for pattern in patterns for path in (sorted(glob(pattern)) or [pattern])]  # noqa: PTH207
        return shards + ([tokenizer.path] if isinstance(tokenizer, FileTokenizer) else [])

    def text(self, tokens_id: str) -> list[str]:
        """All input files of a token store."""
        fetched = self.fetched(tokens_id)
        return [*([fetched] if fetched else []), *self.local_text(tokens_id)]

    def corpus(self, corpus_id: str) -> str:
        """Everything that determines a corpus."""
        return canonical_json(self.corpora[corpus_id].canonical())

    def data(self, tokens_id: str) -> str:
        """Everything that determines a token store."""
        return canonical_json(self.token_stores[tokens_id].canonical())

    # Runs.

    def run(self, run_id: str) -> str:
        """Everything that determines a run."""
        return canonical_json(self.runs[run_id].canonical())

    def execution(self, run_id: str) -> ExecutionConfig:
        """The execution of a run, with no more processes than sequences per step."""
        return self.config.execution.fitted(self.runs[run_id].training.sequences_per_step)

    def of_runs(self, value: Callable[[ExecutionConfig], T]) -> T | Callable[[Any], T]:
        """A resource that depends on the execution of a run: a function of wildcards only if runs differ.

        Snakemake calls such functions once per job, which takes time.
        """
        values = {value(execution) for execution in map(self.execution, self.runs)}
        return values.pop() if len(values) == 1 else lambda wildcards: value(self.execution(wildcards.run))

    def train_threads(self, run_id: str) -> int:
        """CPU threads of a training on each of its nodes."""
        execution = self.execution(run_id)
        return execution.processes_per_node * execution.threads

    def train_scratch(self, run_id: str) -> Path:
        """Folder of a training's checkpoints and metric history: the name identifies its spec and code."""
        return self.paths.scratch(f"{run_id}-{self.code('training')}")

    def manifests(self, run_ids: Any = None) -> list[str]:
        """Manifests of the finished runs, by default of all runs."""
        return [str(self.paths.run(run_id) / "manifest.json") for run_id in (self.runs if run_ids is None else run_ids)]

    # Datasets.

    def spec(self, dataset: str) -> dict[str, Any]:
        """Everything that determines a dataset, except the seeds."""
        return DATASETS[dataset].spec(self.config)

    def dataset(self, name: str) -> str:
        """The spec of a dataset as text."""
        return canonical_json(self.spec(name))

    def slices(self, dataset: str) -> list[tuple[int, int]]:
        """Half-open ranges of seeds, one per job; empty if one job measures the whole dataset."""
        seeds, per_job = DATASETS[dataset].seeds, self.config.probe.seeds_per_job
        count = 0 if seeds is None else seeds(self.config)
        return [(first, min(first + per_job, count)) for first in range(0, count, per_job)]

    def slice_manifests(self, dataset: str) -> list[str]:
        """Manifests of the slices of a dataset."""
        paths = (self.paths.slice(dataset, *seeds) for seeds in self.slices(dataset))
        return [str(path.with_suffix(".json")) for path in paths]

    def tokens_read(self, dataset: str) -> list[str]:
        """Manifest of the token store that a dataset reads; empty if it reads none."""
        store = self.paths.tokens(self.config.probe_data.tokens_id) / "manifest.json"
        return [str(store)] if DATASETS[dataset].reads_tokens else []

    def threads(self, dataset: str) -> int:
        """CPU threads of a job of a dataset."""
        return self.config.execution.threads if DATASETS[dataset].parallel else 1

    def join_threads(self, dataset: str) -> int:
        """CPU threads of the job that joins slices: more than one only if it computes with them."""
        return 1 if DATASETS[dataset].join == COMBINE else self.threads(dataset)

    def memory_mb(self, dataset: str) -> int:
        """Expected memory of a job of a dataset, MB."""
        return DATASETS[dataset].memory(self.config) // 1_000_000

    def job_scratch(self, dataset: str, *seeds: int | str) -> Path:
        """Scratch folder of a job of a dataset: the name identifies its spec, seeds and code."""
        key = digest([self.dataset(dataset), *map(int, seeds)])
        return self.paths.scratch(f"{dataset}-{key}-{self.code(DATASETS[dataset].module)}")

    # Figures, tables and the report.

    @cached_property
    def analysis(self) -> str:
        """Thresholds of the analysis."""
        return canonical_json(self.config.analysis.canonical())

    @cached_property
    def style(self) -> str:
        """Style of the figures; the runs that they show are in their inputs."""
        return canonical_json({k: v for k, v in self.config.figures.canonical().items() if k != "roles"})

    def figure(self, name: str) -> list[str]:
        """Parameters of a figure: the style and, if it shows runs, the thresholds of the analysis."""
        return [self.style] if self.figures[name].at_initialization else [self.style, self.analysis]

    def figure_inputs(self, name: str) -> list[str]:
        """Manifests of the runs or of the dataset that a figure shows."""
        figure = self.figures[name]
        if figure.data is not None:
            return [str(self.paths.root / f"{figure.data}.json")]
        return self.manifests(figure.run_ids)

    def figure_code(self, name: str) -> list[str]:
        """Fingerprints of the code that draws a figure: the part that all families share, and its family."""
        return [self.code("figures.command"), self.code(f"figures.{self.figures[name].family}")]

    def figure_group(self, name: str) -> str | None:
        """Group of small jobs that share one cluster job; it waits for the inputs of all its figures."""
        figure = self.figures[name]
        if figure.at_initialization:
            return "initialization"
        return None if len(figure.run_ids) == len(self.runs) > 1 else "figures"

    @cached_property
    def report(self) -> str:
        """Parameters of the report: everything except the execution."""
        return canonical_json({k: v for k, v in self.config.canonical().items() if k != "execution"})

    @cached_property
    def report_code(self) -> list[str]:
        """Fingerprints of the code that writes the report: the page, and the captions of all families."""
        families = sorted({figure.family for figure in self.figures.values()})
        return [self.code("report"), *(self.code(f"figures.{family}") for family in families)]

    # All together.

    @property
    def scratch(self) -> set[str]:
        """Names of the scratch folders of all jobs, including trainings."""
        trainings = {self.train_scratch(run_id).name for run_id in self.runs}
        slices = {self.job_scratch(name, *seeds).name for name in DATASETS for seeds in self.slices(name)}
        return trainings | slices | {self.job_scratch(name).name for name in DATASETS if not self.slices(name)}

    @property
    def datasets(self) -> set[Path]:
        """All datasets and their slices."""
        sliced = {self.paths.slice(name, *seeds) for name in DATASETS for seeds in self.slices(name)}
        return sliced | {self.paths.dataset(name) for name in DATASETS}

    @property
    def dataset_manifests(self) -> list[str]:
        """Manifests of all datasets, without their slices."""
        return sorted(str(self.paths.dataset(name).with_suffix(".json")) for name in DATASETS)

    def drawn(self, at_initialization: bool) -> list[str]:
        """PNG files of the figures that need no run, or of those that need runs."""
        return [
            str(self.paths.figures / f"{name}.png")
            for name, figure in self.figures.items()
            if figure.at_initialization == at_initialization
        ]

    @property
    def initialization(self) -> list[str]:
        """Everything that needs no training: datasets and their figures, and the claims.

        The target lists every result, because Snakemake makes a missing file again only if it is listed or needed.
        """
        return [*self.dataset_manifests, *self.drawn(True), str(self.paths.claims)]

    @property
    def everything(self) -> list[str]:
        """Every result."""
        tables = [str(self.paths.root / name) for name in ("summary.csv", "report.html")]
        stores = [str(self.paths.tokens(tokens_id) / "manifest.json") for tokens_id in self.token_stores]
        return [*stores, *self.manifests(), *self.initialization, *self.drawn(False), *tables]


def plan(raw: Mapping[str, Any], source: str) -> Plan:
    """The plan of a config as Snakemake read it.

    Raises:
        ConfigError: lists every problem.
    """
    return Plan(parse(raw, source))
