"""Stores: the metric history of a running training, and the published Datasets of runs, probes and theory."""
