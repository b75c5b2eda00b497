"""The whole config of a pipeline: its sections and the runs that they describe."""

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import Field, ValidationError

from collapse.config.analysis import AnalysisConfig
from collapse.config.base import ConfigError, Section, describe, read_yaml
from collapse.config.corpus import CorpusConfig
from collapse.config.execution import ExecutionConfig
from collapse.config.figures import FiguresConfig
from collapse.config.grid import GridConfig, GridRun
from collapse.config.model import ModelConfig
from collapse.config.probe import MonteCarloConfig, ProbeConfig
from collapse.config.record import RecordConfig
from collapse.config.run import DataSpec, RunSpec
from collapse.config.tokens import TokensConfig
from collapse.config.training import TrainingConfig


class Config(Section):
    """A pipeline's config. Results go to `results/<name>/`."""

    name: Annotated[str, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    """Folder under `results/`; lower-case letters, digits, `-` and `_`."""
    corpus: CorpusConfig
    """Where the text comes from."""
    tokens: TokensConfig
    model: ModelConfig
    training: TrainingConfig
    record: RecordConfig = Field(default_factory=RecordConfig)
    execution: ExecutionConfig
    grid: GridConfig
    probe: ProbeConfig = Field(default_factory=ProbeConfig)
    monte_carlo: MonteCarloConfig = Field(default_factory=MonteCarloConfig)
    analysis: AnalysisConfig = Field(default_factory=AnalysisConfig)
    figures: FiguresConfig = Field(default_factory=FiguresConfig)

    @property
    def data(self) -> DataSpec:
        """What determines the token store."""
        return DataSpec(corpus=self.corpus, tokens=self.tokens)

    @property
    def probe_data(self) -> DataSpec:
        """What determines the token store that the probes read."""
        return DataSpec(corpus=self.probe.corpus or self.corpus, tokens=self.tokens)

    def spec_of(self, override: GridRun) -> RunSpec:
        """The whole spec of the run that an override describes.

        Raises:
            ValidationError: if the values contradict each other.
        """
        values = override.values()
        model = self.model.canonical() | {key: values.pop(key) for key in ("placement",) if key in values}
        return RunSpec.model_validate(
            {
                "corpus": self.corpus.canonical(),
                "tokens": self.tokens.canonical(),
                "model": model,
                "training": self.training.canonical() | values,
                "record": self.record.canonical(),
            }
        )

    @property
    def runs(self) -> dict[str, RunSpec]:
        """Every run of the grid by its id, without duplicates, in the order of the file."""
        specs = (self.spec_of(override) for _, override in self.grid.overrides())
        return {spec.run_id: spec for spec in specs}

    def matching(self, selector: GridRun) -> list[str]:
        """Ids of the runs that match every key of a selector, in the order of the file."""
        wanted = selector.values()
        return [run_id for run_id, spec in self.runs.items() if wanted.items() <= _labels(spec).items()]


def _labels(spec: RunSpec) -> dict[str, Any]:
    """A run's values under the keys of `grid`."""
    training = spec.training
    return {
        "placement": spec.model.placement,
        "lr": training.lr,
        "warmup_steps": training.warmup_steps,
        "seed": training.seed,
        "scope": training.scope,
        "steps": training.steps,
    }


def _grid_problems(config: Config) -> list[str]:
    """Problems between sections: impossible runs, and roles that no run of the grid can play."""
    problems: list[str] = []
    overrides = list(config.grid.overrides())
    if not overrides:
        problems.append("grid: the grid is empty; give grid.product, grid.extra or both (got no run)")
    for key, override in overrides:
        try:
            spec = config.spec_of(override)
        except ValidationError as error:
            problems.extend(describe(error, None, key))
            continue
        try:
            sequences = spec.training.sequences_per_step
            config.execution.fitted(sequences).split(sequences)
        except ValueError as error:
            problems.append(f"{key}: {error} (got {override.values()})")
    if problems:
        return list(dict.fromkeys(problems))
    roles = config.figures.roles
    selectors = {f"figures.roles.{name}": getattr(roles, name) for name in ("collapsing", "second_seed", "stable")}
    selectors |= {f"figures.roles.ablations[{i}]": selector for i, selector in enumerate(roles.ablations or [])}
    for key, selector in selectors.items():
        if selector is not None and not config.matching(selector):
            problems.append(f"{key}: no run of the grid agrees with it (got {selector.values()})")
    return problems


def parse(raw: Mapping[str, Any], source: str = "config") -> Config:
    """A validated config from plain data.

    Raises:
        ConfigError: lists every problem.
    """
    try:
        config = Config.model_validate(raw)
    except ValidationError as error:
        raise ConfigError(list(describe(error, raw)), source) from None
    if problems := _grid_problems(config):
        raise ConfigError(problems, source)
    return config


def load(path: str | Path) -> Config:
    """A validated config from a YAML file.

    Raises:
        ConfigError: if the file is missing, is not a YAML mapping, or has problems; lists every problem.
    """
    path = Path(path)
    raw = read_yaml(path)
    if not isinstance(raw, dict):
        raise ConfigError([f"(file): should be a mapping of sections (got {type(raw).__name__})"], str(path))
    return parse(raw, str(path))
