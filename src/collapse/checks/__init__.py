"""Statements of the paper, tried on constructed states in float64."""
