"""Training: the numerics of one run, from its first step to its published store. Nothing here starts a process."""
