from collapse.progress import Progress


def lines(capfd, monkeypatch, seconds, progress, *updates):
    """What progress says after `seconds` of work, and then with every further update at once."""
    clock = iter([0.0, *[float(seconds)] * len(updates)])
    monkeypatch.setattr("collapse.progress.time.monotonic", lambda: next(clock))
    bar = progress()
    for update in updates:
        bar.update(*update)
    return capfd.readouterr().err.splitlines()


def test_it_says_a_line_when_one_is_due(capfd, monkeypatch):
    found = lines(
        capfd, monkeypatch, 5, lambda: Progress("tokenizing", "tokens"), (1_000_000, 0.25), (1_100_000, 0.275)
    )
    assert found == ["tokenizing: 1,000,000 tokens, 25%, 200k tokens/s, ETA 00:15"]
    assert lines(capfd, monkeypatch, 4, lambda: Progress("tokenizing", "tokens"), (10, 0.25)) == []


def test_without_a_total_it_tells_no_end(capfd, monkeypatch):
    found = lines(capfd, monkeypatch, 5, lambda: Progress("tokenizing", "tokens"), (2000, None))
    assert found == ["tokenizing: 2,000 tokens, 400 tokens/s"]


def test_slow_units_keep_their_digits(capfd, monkeypatch):
    found = lines(capfd, monkeypatch, 10, lambda: Progress("attention", "layers"), (2, 0.25))
    assert found == ["attention: 2 layers, 25%, 0.20 layers/s, ETA 00:30"]


def test_what_an_earlier_start_did_counts_as_done_but_not_as_fast(capfd, monkeypatch):
    made = lambda: Progress("run", "tokens", total=1000, start=500)  # noqa: E731
    found = lines(capfd, monkeypatch, 10, made, (600, None, "step 6/10, loss 5.1"), (900,), (1000, None, "step 10/10"))
    assert found == [
        "run: 600 tokens, step 6/10, loss 5.1, 60%, 10.0 tokens/s, ETA 00:40",
        "run: 1,000 tokens, step 10/10, 100%, 50.0 tokens/s, ETA 00:00",  # the end is always said
    ]
