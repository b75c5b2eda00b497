import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.config.training import TrainingConfig
from collapse.training.learning_rate import learning_rate_factor


def training(**changes: object) -> TrainingConfig:
    return TrainingConfig.model_validate({"steps": 50, "warmup_steps": 10, "lr": 1e-3, "batch_size": 1} | changes)


def test_warmup_reaches_the_peak_and_the_cosine_its_end() -> None:
    factor = learning_rate_factor(training(horizon=100, final_lr_fraction=0.1))
    assert [factor(s) for s in range(10)] == pytest.approx([(s + 1) / 10 for s in range(10)])
    assert factor(10) == 1.0
    assert factor(55) == pytest.approx(0.55)
    assert factor(100) == factor(1000) == pytest.approx(0.1)


def test_no_warmup_starts_at_the_peak() -> None:
    assert learning_rate_factor(training(warmup_steps=0))(0) == 1.0


@given(st.integers(0, 99), st.integers(1, 200))
def test_rises_then_falls(warmup: int, beyond: int) -> None:
    factor = learning_rate_factor(training(steps=1, warmup_steps=warmup, horizon=warmup + beyond))
    values = [factor(s) for s in range(warmup + beyond + 1)]
    assert all(a < b for a, b in itertools.pairwise(values[:warmup]))
    assert all(a >= b for a, b in itertools.pairwise(values[warmup:]))
    assert all(0 <= v <= 1 for v in values)
