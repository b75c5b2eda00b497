"""Claims of the paper and of its critics, and their verdicts, computed from stored datasets."""
