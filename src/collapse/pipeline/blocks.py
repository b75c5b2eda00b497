"""How large the blocks are in which probes compute: their memory forecast needs it too."""

CHUNK_TOKENS = 8192
"""Most tokens that the increments pass through a layer at once, unless a single sequence is longer."""
BLOCK_ROWS = 256
"""Rows of a causal attention matrix per block, if the matrix is computed in blocks."""
