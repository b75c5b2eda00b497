"""How text becomes token ids."""

from typing import Annotated, Literal

from pydantic import Field

from collapse.config.base import PositiveInt, Real, Section, Sha256


class TrainedTokenizer(Section):
    """A SentencePiece BPE model trained here, on the corpus itself."""

    kind: Literal["train"]
    vocab_size: Annotated[PositiveInt, Field(ge=300)] = 2048
    """Number of pieces, including the 256 byte pieces and the control pieces."""
    documents: PositiveInt = 100_000
    """Number of documents to train on, from the first on."""


class FileTokenizer(Section):
    """A SentencePiece model from a local file."""

    kind: Literal["file"]
    path: str
    """Path of the `.model` file."""
    sha256: Sha256 | None = None
    """Digest that the file must have; null accepts any."""


class WheelTokenizer(Section):
    """The SentencePiece model (32000 pieces, of the same kind as Llama-2's) of the pinned `mistral-common` wheel."""

    kind: Literal["wheel"]


class HubTokenizer(Section):
    """A SentencePiece model from a model repository on the Hugging Face hub."""

    kind: Literal["hub"]
    repository: str
    """Model repository, such as `meta-llama/Llama-2-7b-hf`."""
    filename: str = "tokenizer.model"
    """File inside the repository."""
    revision: str = Field(min_length=1)
    """Commit of the repository."""
    sha256: Sha256
    """Digest that the file must have."""


TokenizerConfig = Annotated[
    TrainedTokenizer | FileTokenizer | WheelTokenizer | HubTokenizer, Field(discriminator="kind")
]


class TokensConfig(Section):
    """The token store: which tokenizer, how many tokens, what is held out."""

    tokenizer: TokenizerConfig
    """Which SentencePiece model encodes the text."""
    validation_fraction: Annotated[Real, Field(ge=0, lt=1)] = 0.02
    """Share of urls whose documents are held out for validation; no url is in both splits."""
    max_tokens: PositiveInt | None = None
    """Largest number of training tokens to store; null takes the whole corpus."""
