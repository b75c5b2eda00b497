"""Sizes that both a computation and the forecast of its memory need."""

CHUNK_TOKENS = 8192
"""Most tokens that the increments send through a layer at once, unless a single sequence is longer."""
BLOCK_ROWS = 256
"""Rows of a causal attention matrix that are computed at once where no matrix is held whole."""
