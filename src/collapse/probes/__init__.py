"""Measurements at initialization: they draw the stack layer by layer and train nothing."""
