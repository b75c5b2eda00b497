"""The decoder's shape."""

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from collapse.config.base import NonNegativeReal, PositiveInt, PositiveReal, Section

PlacementName = Literal["post", "pre"]


class ModelConfig(Section):
    """A Llama-2 style decoder: rotary positions, SwiGLU, RMSNorm, no biases."""

    placement: PlacementName = "post"
    """Where RMSNorm acts: `post` on the residual stream after each addition, `pre` only on the input of each branch."""
    layers: PositiveInt
    """Number of decoder layers L; each has an attention and an FFN sublayer."""
    width: PositiveInt
    """Model dimension d."""
    heads: PositiveInt
    """Attention heads H; the head width d/H must be even for rotary positions."""
    ffn_width: PositiveInt
    """Hidden width d_ff of SwiGLU."""
    sequence_length: Annotated[PositiveInt, Field(ge=2)]
    """Tokens per sequence, n."""
    vocab_size: Annotated[PositiveInt, Field(ge=2)]
    """Vocabulary size v; every token id must be below it."""
    tie_embeddings: bool = True
    """Whether the LM head is the embedding table."""
    embedding_std: PositiveReal = 0.02
    """Standard deviation of the embedding table's Gaussian initialization."""
    head_std: PositiveReal = 0.02
    """Standard deviation of an untied LM head's Gaussian initialization (no effect with tied embeddings)."""
    norm_eps: NonNegativeReal = 1e-5
    """RMSNorm's epsilon."""
    rope_base: PositiveReal = 10_000.0
    """Base of the rotary frequencies."""

    @model_validator(mode="after")
    def _heads_divide_width(self) -> Self:
        if self.width % self.heads:
            raise ValueError(f"heads must divide width (got heads {self.heads}, width {self.width})")
        if (self.width // self.heads) % 2:
            raise ValueError(
                f"width / heads must be even for rotary positions (got {self.width} / {self.heads} = "
                f"{self.width // self.heads})"
            )
        return self
