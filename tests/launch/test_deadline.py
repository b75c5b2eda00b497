import itertools
import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.launch.deadline import (
    BYTES_PER_SECOND,
    MARGIN,
    RECENT,
    SPARE_SECONDS,
    STATE_BYTES,
    Budget,
    Deadline,
    deadline_of,
)


class Clock:
    def __init__(self) -> None:
        self.now = 1e9

    def __call__(self) -> float:
        return self.now


def test_the_sooner_of_two_ends_counts(lab, tmp_path: Path) -> None:
    job = lab.job(lab.spec(), lab.execution(), tmp_path)
    assert deadline_of(job) == Deadline()
    job = job.model_copy(update={"began": 1000.0, "job_end": 1060.0})
    assert deadline_of(job) == Deadline(1060.0, "the end of the Slurm job")
    job = job.model_copy(update={"execution": lab.execution(time_limit=30)})
    assert deadline_of(job) == Deadline(1030.0, "the time limit of 30 s")


def test_without_a_limit_there_is_always_time() -> None:
    clock = Clock()
    budget = Budget(math.inf, 10**12, clock)
    clock.now += 1e9
    assert not budget.is_short


def test_there_is_time_until_shortly_before_the_end() -> None:
    clock = Clock()
    assert not Budget(clock.now + 50, 1000, clock).is_short
    assert Budget(clock.now + 0.5, 1000, clock).is_short


def test_the_first_checkpoint_is_guessed_from_the_size_of_the_model() -> None:
    clock, seconds = Clock(), 40.0
    parameters = int(seconds * BYTES_PER_SECOND / STATE_BYTES)
    assert Budget(clock.now + MARGIN * 2 * seconds, parameters, clock).is_short
    enough = MARGIN * 2 * seconds + 2 * SPARE_SECONDS
    assert not Budget(clock.now + enough, parameters, clock).is_short


def test_one_slow_step_is_forgotten() -> None:
    clock = Clock()
    budget = Budget(clock.now + 1000, 0, clock)
    for seconds in (600, *[1] * 30):
        with budget.step():
            clock.now += seconds
        if seconds == 600:
            assert budget.is_short
    assert not budget.is_short


@given(
    st.floats(10, 10_000),
    st.lists(st.floats(0.01, 5), min_size=1, max_size=30),
    st.lists(st.floats(0.01, 30), min_size=1, max_size=5),
    st.integers(1, 50),
)
def test_it_leaves_in_time(limit: float, steps: list[float], checkpoints: list[float], every: int) -> None:
    """If steps take as long as earlier ones, checkpoints as long as forecast, and there is time for a step at all."""
    clock = Clock()
    end, longest, checkpoint = clock.now + limit, max(steps), max(checkpoints)
    budget = Budget(end, int(checkpoint * BYTES_PER_SECOND / STATE_BYTES), clock)
    for done in itertools.count(1):
        with budget.step():
            clock.now += longest if done % RECENT == 1 else steps[done % len(steps)]
        short = budget.is_short
        if short or done % every == 0:
            with budget.checkpoint():
                clock.now += checkpoint
        if short:
            break
    assert done == 1 or clock.now <= end


def test_a_failed_step_raises() -> None:
    with pytest.raises(ZeroDivisionError), Budget(10, 0).step():
        1 / 0  # noqa: B018
