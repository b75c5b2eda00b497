"""Why deep Post-Norm transformers collapse."""
