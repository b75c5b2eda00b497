"""What the workflow needs to know, from the config alone: no torch, no data."""
