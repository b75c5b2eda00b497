"""The learning rate over the steps."""

import math
from collections.abc import Callable

from collapse.config.training import TrainingConfig


def learning_rate_factor(training: TrainingConfig) -> Callable[[int], float]:
    """A function from the step (0-based) to the share of the peak learning rate: a linear warmup, then a cosine.

    Step t of a warmup over w steps has (t + 1)/w of the peak, so that no step is wasted at rate 0.
    """
    warmup, horizon, floor = training.warmup_steps, training.decay_steps, training.final_lr_fraction

    def factor(step: int) -> float:
        if step < warmup:
            return (step + 1) / warmup
        progress = min((step - warmup) / (horizon - warmup), 1.0)
        return floor + (1.0 - floor) * 0.5 * (1.0 + math.cos(math.pi * progress))

    return factor
