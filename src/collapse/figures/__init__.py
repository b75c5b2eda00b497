"""Figures: one module a family, each a command. They read finished runs, never torch."""
