"""Stores: the metric history of a training under way, and the published Dataset of a finished one."""
