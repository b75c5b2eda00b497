"""The metric history of a running training."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from collapse.store.history import CHUNK_STEPS, LAYERWISE_NAMES, STEPWISE_NAMES, History

LAYERS = 2


def values(steps: Sequence[int], salt: float = 0.0) -> tuple[dict[str, np.ndarray], dict[str, np.ndarray]]:
    """Numbers that are different for every step, metric and layer."""
    at = np.asarray(steps, float)
    layerwise = {
        name: at[:, None, None] + 1000 * index + np.arange(2 * LAYERS).reshape(LAYERS, 2) / 10 + salt
        for index, name in enumerate(LAYERWISE_NAMES)
    }
    return layerwise, {name: at + 1000 * index + salt for index, name in enumerate(STEPWISE_NAMES)}


def write(history: History, steps: Sequence[int], salt: float = 0.0) -> None:
    history.write(steps, *values(steps, salt))


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "history.zarr"


def test_reads_back_the_values_written_before_a_step(folder: Path) -> None:
    scheduled = [0, 3, 6, 7, 8, 9, 12]
    history = History(folder, scheduled, LAYERS)
    write(history, [0, 3])
    write(history, [6, 7, 8])
    write(history, [])
    for stop, expected in ((0, []), (1, [0]), (7, [0, 3, 6]), (13, [0, 3, 6, 7, 8])):
        found = History(folder, scheduled, LAYERS).read(stop)
        assert list(found.steps) == expected
        layerwise, stepwise = values(expected)
        for name in LAYERWISE_NAMES:
            np.testing.assert_array_equal(found.layerwise[name], layerwise[name].astype(np.float32))
        for name in STEPWISE_NAMES:
            np.testing.assert_array_equal(found.stepwise[name], stepwise[name])


def test_a_run_may_end_at_a_step_outside_its_list(folder: Path) -> None:
    history = History(folder, [0, 10, 20, 29], LAYERS)
    write(history, [0, 10])
    write(history, [14])
    assert list(history.read(15).steps) == [0, 10, 14]
    assert list(history.read(14).steps) == [0, 10]


def test_equal_digests_mean_equal_steps(folder: Path, tmp_path: Path) -> None:
    """The order of writes and calls does not count, nor do later steps; overwritten values do."""
    scheduled = list(range(0, 3 * CHUNK_STEPS, 2))
    history, other = History(folder, scheduled, LAYERS), History(tmp_path / "other.zarr", scheduled, LAYERS)
    digests = {}
    for start in range(0, len(scheduled), 7):
        write(history, scheduled[start : start + 7])
        stop = scheduled[start] + 13
        digests[stop] = history.digest(stop)
    write(other, scheduled)
    assert len(set(digests.values())) == len(digests)
    assert digests == {stop: other.digest(stop) for stop in reversed(digests)}
    assert digests == {stop: History(folder, scheduled, LAYERS).digest(stop) for stop in digests}
    last = max(digests)
    write(history, scheduled[:2], salt=1.0)
    assert history.digest(last) != digests[last]
    write(history, scheduled[:2])
    assert history.digest(last) == digests[last]


@pytest.mark.parametrize("name", ["zarr.json", "layerwise/zarr.json", "step/zarr.json"])
@pytest.mark.parametrize("content", ["", "{", "[]", "{}"])
def test_an_unreadable_history_starts_again(folder: Path, name: str, content: str) -> None:
    write(History(folder, range(4), LAYERS), range(4))
    (folder / name).write_text(content)
    history = History(folder, range(4), LAYERS)
    write(history, [0, 1])
    assert {0, 1} <= set(history.read(4).steps)
