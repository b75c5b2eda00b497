"""What the workflow's rules need to know of a config: the slice that each stage depends on, and its code's fingerprint.

Snakemake reruns a job when one of its parameters changes, and compares parameters as text. So every slice is one string
of canonical JSON: a value that changes place changes the string, a number spelled otherwise does not.
"""

from collections.abc import Callable, Mapping
from functools import cached_property
from glob import glob
from pathlib import Path
from typing import Any, TypeVar

from collapse.config.corpus import CorpusConfig, ShardCorpus
from collapse.config.identity import canonical_json, digest
from collapse.config.probe import slices
from collapse.config.root import Config, parse
from collapse.config.run import DataSpec, RunSpec
from collapse.config.tokens import FileTokenizer
from collapse.config.training import ExecutionConfig
from collapse.pipeline.fingerprint import fingerprint
from collapse.pipeline.gallery import Figure, figures
from collapse.pipeline.paths import ResultPaths, results

T = TypeVar("T")

RESUMABLE = {
    "increments": "probes.increments",
    "attention": "probes.attention_sums",
    "approximations": "probes.approximations",
    "swiglu_moment": "theory.moment_sampling",
    "concentration": "theory.concentration",
}
"""Datasets whose jobs go on from a scratch folder, and the stage that does them."""


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

    @cached_property
    def token_stores(self) -> dict[str, DataSpec]:
        """Token stores by their ids: that of the runs and that of the probes."""
        return {data.tokens_id: data for data in (self.config.data, self.config.probe_data)}

    @cached_property
    def corpora(self) -> dict[str, CorpusConfig]:
        """Corpora that the workflow fetches, by their ids."""
        stores = self.token_stores.values()
        return {data.corpus_id: data.corpus for data in stores if data.corpus.source == "sample"}

    def fetched(self, tokens_id: str) -> str | None:
        """Manifest of the corpus that a token store is made from; None where it is not fetched by the workflow."""
        corpus_id = self.token_stores[tokens_id].corpus_id
        return str(self.paths.corpus(corpus_id) / "manifest.json") if corpus_id in self.corpora else None

    def local_text(self, tokens_id: str) -> list[str]:
        """The user's own files that a token store is made from; a pattern that matches nothing is kept as it is."""
        data = self.token_stores[tokens_id]
        corpus, tokenizer = data.corpus, data.tokens.tokenizer
        patterns = corpus.files if isinstance(corpus, ShardCorpus) else []
        shards = [path for pattern in patterns for path in (sorted(glob(pattern)) or [pattern])]  # noqa: PTH207
        return shards + ([tokenizer.path] if isinstance(tokenizer, FileTokenizer) else [])

    def corpus(self, corpus_id: str) -> str:
        """What a corpus depends on."""
        return canonical_json(self.corpora[corpus_id].canonical())

    def data(self, tokens_id: str) -> str:
        """What a token store depends on."""
        return canonical_json(self.token_stores[tokens_id].canonical())

    @cached_property
    def probes(self) -> dict[str, str]:
        """What each stage of probes and theory depends on, by the name of its dataset."""
        config = self.config
        specs = {
            "increments": config.increments,
            "attention": config.attention,
            "approximations": config.approximations,
            "collapsed_states": config.collapsed_states,
            "swiglu_moment": config.moments,
            "concentration": config.concentration,
        }
        return {name: canonical_json(spec.canonical()) for name, spec in specs.items()}

    @cached_property
    def slices(self) -> dict[str, list[tuple[int, int]]]:
        """Half-open ranges of seeds, one a job, of the probes that are spread over jobs."""
        probe = self.config.probe
        counts = {"increments": probe.seeds, "attention": probe.initializations}
        return {name: slices(count, probe.seeds_per_job) for name, count in counts.items()}

    def slice_manifests(self, probe: str) -> list[str]:
        """Manifests of a probe's slices."""
        return [str(self.paths.probe_slice(probe, *seeds).with_suffix(".json")) for seeds in self.slices[probe]]

    def memory_mb(self, probe: str) -> int:
        """Memory that a job of a probe is foreseen to take, MB."""
        config = self.config
        seeds = min(config.probe.seeds_per_job, config.probe.initializations)
        needed = {
            "increments": config.increments.memory_bytes,
            "attention": config.attention.memory_bytes(seeds),
            "approximations": config.approximations.memory_bytes,
        }
        return 200 + needed[probe] // 1_000_000

    def job_scratch(self, dataset: str, *seeds: int | str) -> str:
        """Scratch folder of a job of probes or theory: the name tells its spec, its seeds and its code."""
        key = digest([self.probes[dataset], *map(int, seeds)])
        return str(self.paths.scratch(f"{dataset}-{key}-{self.code(RESUMABLE[dataset])}"))

    @property
    def scratch(self) -> set[str]:
        """Names of the scratch folders of all jobs, trainings included."""
        trainings = {f"{run_id}-{self.code('training.loop')}" for run_id in self.runs}
        jobs = {(dataset, *seeds) for dataset in RESUMABLE for seeds in self.slices.get(dataset, [()])}
        return trainings | {Path(self.job_scratch(*job)).name for job in jobs}

    @property
    def datasets(self) -> set[Path]:
        """Datasets of probes and theory, slices included, and their manifests."""
        stores = {self.paths.theory(name) for name in ("swiglu_moment", "concentration")}
        stores |= {self.paths.probe(name) for name in self.probes if self.paths.theory(name) not in stores}
        stores |= {self.paths.probe_slice(name, *seeds) for name, cut in self.slices.items() for seeds in cut}
        return {path.with_suffix(suffix) for path in stores for suffix in (".zarr", ".json")}

    @cached_property
    def analysis(self) -> str:
        """Thresholds of the analysis."""
        return canonical_json(self.config.analysis.canonical())

    @cached_property
    def style(self) -> str:
        """How figures look; which runs they show is in their inputs."""
        return canonical_json({k: v for k, v in self.config.figures.canonical().items() if k != "roles"})

    def execution_of(self, run_id: str) -> ExecutionConfig:
        """How a run is trained: with no more processes than it has sequences in a step."""
        return self.config.execution.fitted(self.runs[run_id].training.sequences_per_step)

    def of_runs(self, value: Callable[[ExecutionConfig], T]) -> T | Callable[[Any], T]:
        """What follows from a run's execution, as a resource: a function of wildcards only where runs differ.

        Functions cost Snakemake time, job by job.
        """
        values = {value(execution) for execution in map(self.execution_of, self.runs)}
        return values.pop() if len(values) == 1 else lambda wildcards: value(self.execution_of(wildcards.run))

    def execution(self, run_id: str, on_gpus: bool = False) -> str:
        """How a run is trained, on nothing but GPUs where its job asked for them; nothing is rerun when it changes."""
        execution = self.execution_of(run_id)
        return canonical_json(execution.canonical() | ({"device": "cuda"} if on_gpus else {}))

    @property
    def time_limit(self) -> str:
        """Option of the training command for `training.time_limit`, which changes no number; empty without a limit."""
        seconds = self.config.training.time_limit
        return "" if seconds is None else f" --time-limit {seconds:g}"

    @cached_property
    def whole(self) -> str:
        """The whole config."""
        return canonical_json(self.config.canonical())

    @cached_property
    def report(self) -> str:
        """What the report depends on: everything but the execution."""
        return canonical_json({k: v for k, v in self.config.canonical().items() if k != "execution"})

    def train_threads(self, run_id: str) -> int:
        """CPU threads of a training on each of its nodes."""
        execution = self.execution_of(run_id)
        return execution.processes_per_node * execution.threads

    def run(self, run_id: str) -> str:
        """What a training depends on."""
        return canonical_json(self.runs[run_id].canonical())

    def manifests(self, run_ids: Any = None) -> list[str]:
        """Manifests of finished runs; of all of them by default."""
        return [str(self.paths.run(run_id) / "manifest.json") for run_id in (self.runs if run_ids is None else run_ids)]

    def figure_inputs(self, name: str, option: str) -> list[str]:
        """Manifests of the runs that a figure takes with an option of its command; none where no run plays the part."""
        return self.manifests(self.figures[name].runs.get(option, ()))

    def figure_data(self, name: str) -> str:
        """Manifest of the dataset that a figure of probes or theory is drawn from."""
        return str(self.paths.root / f"{self.figures[name].data}.json")

    @property
    def dataset_manifests(self) -> list[str]:
        """Manifests of all datasets of probes and theory but their slices."""
        return sorted(str(path) for path in self.datasets if path.suffix == ".json" and path.parent.name != "slices")

    @property
    def initialization(self) -> list[str]:
        """Everything that needs no training: datasets and figures of probes and theory, and the claims.

        A target names every result: what is not named, and needed by no job, is not made again where it is missing.
        """
        drawn = [str(self.paths.figures / f"{name}.png") for name, figure in self.figures.items() if figure.data]
        return [*self.dataset_manifests, *drawn, str(self.paths.claims)]

    @property
    def everything(self) -> list[str]:
        """Every result."""
        drawn = [str(self.paths.figures / f"{name}.png") for name in self.figures]
        tables = [str(self.paths.root / name) for name in ("summary.csv", "report.html")]
        stores = [str(self.paths.tokens(tokens_id) / "manifest.json") for tokens_id in self.token_stores]
        return list(dict.fromkeys([*stores, *self.manifests(), *self.initialization, *drawn, *tables]))

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
