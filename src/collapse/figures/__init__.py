"""Figures: one module per family, drawn from finished runs and datasets. Nothing here imports torch."""
