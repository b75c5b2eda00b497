import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.corpus.batches import Batches, windows
from collapse.errors import CollapseError


def stream(length):
    return np.arange(length, dtype=np.uint16)


def make(tokens, n=8, sequences=4, seed=0, scope="stream", vocab_size=1 << 16):
    return Batches(tokens, n, sequences, seed, scope, vocab_size)


@given(length=st.integers(2, 400), n=st.integers(1, 20), sequences=st.integers(1, 9), seed=st.integers(0, 2**40))
def test_each_window_occurs_once_per_epoch(length, n, sequences, seed):
    if length < n + 1:
        return
    batches = make(stream(length), n, sequences, seed)
    count = (length - 1) // n
    steps = -(-3 * count // sequences)
    seen = [int(row[0]) // n for step in range(steps) for row in batches.at(step)[0]]
    for epoch in range(3):
        assert sorted(seen[epoch * count : (epoch + 1) * count]) == list(range(count))


@given(length=st.integers(9, 300), step=st.integers(0, 50))
def test_labels_are_the_next_tokens(length, step):
    inputs, labels = make(stream(length)).at(step)
    assert inputs.shape == labels.shape == (4, 8)
    assert inputs.dtype == labels.dtype == np.int64
    np.testing.assert_array_equal(labels, inputs + 1)
    assert (inputs[:, 0] % 8 == 0).all()


def test_batches_are_a_function_of_seed_and_step():
    tokens = stream(5000)
    first = make(tokens)
    walked = [first.at(step) for step in range(400)]
    for step in (399, 0, 157, 156, 155, 313):
        np.testing.assert_array_equal(make(tokens).at(step), walked[step])
    assert not np.array_equal(make(tokens, seed=1).at(0), walked[0])


def test_epochs_differ_in_order():
    batches = make(stream(8 * 40 + 1), sequences=40)
    assert batches.order(0) != batches.order(1)


def test_the_order_is_pinned():
    """Stored runs depend on this order."""
    assert make(stream(8 * 10 + 1), sequences=12, seed=3).order(0) == [9, 6, 0, 2, 1, 4, 7, 5, 3, 8, 4, 1]


def test_a_batch_is_not_a_view_of_the_tokens():
    tokens = stream(100)
    inputs, _ = make(tokens).at(0)
    inputs[:] = 0
    np.testing.assert_array_equal(tokens, stream(100))


def test_small_scopes_repeat_the_start_of_the_stream():
    tokens = stream(1000)
    start = make(tokens).at(0)
    batch = make(tokens, scope="batch")
    sequence = make(tokens, sequences=1, scope="sequence")
    for step in (0, 1, 1000):
        np.testing.assert_array_equal(batch.at(step), start)
        np.testing.assert_array_equal(sequence.at(step), [part[:1] for part in start])
    with pytest.raises(ValueError, match="one sequence per step"):
        make(tokens, sequences=2, scope="sequence")


@pytest.mark.parametrize("length", [0, 1, 8])
def test_a_corpus_shorter_than_a_sequence(length):
    with pytest.raises(CollapseError, match=rf"has {length} training tokens, fewer than one sequence needs .* = 9\)"):
        make(stream(length))
    assert make(stream(9)).at(5)[0].shape == (4, 8)


@pytest.mark.parametrize("position", [0, 17, 64])
def test_an_id_outside_the_vocabulary(position):
    tokens = np.zeros(65, np.uint16)
    tokens[position] = 300
    with pytest.raises(CollapseError, match=rf"token id 300 at position {position} of .*vocab_size is 300\)"):
        make(tokens, sequences=8, vocab_size=300).at(0)
    make(tokens, sequences=8, vocab_size=301).at(0)


def test_windows_come_in_order():
    inputs, labels = windows(stream(50), 8, 3)
    np.testing.assert_array_equal(inputs, np.arange(24).reshape(3, 8))
    np.testing.assert_array_equal(labels, inputs + 1)
    assert windows(stream(50), 8, 100)[0].shape == (6, 8)
    assert windows(stream(49), 8, 100)[0].shape == (6, 8)
    assert windows(stream(48), 8, 100)[0].shape == (5, 8)
    assert windows(stream(0), 8, 4)[0].shape == (0, 8)
