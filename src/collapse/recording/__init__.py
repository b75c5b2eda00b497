"""Recording: what a training step yields, and how it is measured."""
