from itertools import pairwise

from hypothesis import given
from hypothesis import strategies as st

from collapse.config.record import RecordConfig


@given(st.integers(1, 200), st.integers(1, 50), st.data())
def test_records_first_last_every_nth_and_window_steps(steps: int, every: int, data: st.DataObject) -> None:
    bounds = sorted(data.draw(st.sets(st.integers(0, steps - 1), max_size=6)))
    windows = [(first, last) for first, last in zip(bounds[::2], bounds[1::2], strict=False)]
    recorded = RecordConfig(every=every, dense=windows).recorded(steps)
    assert all(before < after for before, after in pairwise(recorded))
    dense = {step for first, last in windows for step in range(first, last + 1)}
    assert set(recorded) == {step for step in range(steps) if step % every == 0 or step == steps - 1 or step in dense}


def test_records_every_step_by_default() -> None:
    assert RecordConfig().recorded(7) == list(range(7))
