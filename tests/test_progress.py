from collapse.progress import Progress


def test_progress_prints_a_line_when_it_is_due(capfd):
    quiet, chatty = Progress("tokenizing", "tokens", seconds=60), Progress("tokenizing", "tokens", seconds=0)
    quiet.update(10, 0.5)
    chatty.update(1000, 0.5)
    chatty.update(2000, None)
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith("tokenizing: 1,000 tokens, ") and "50%, about" in first and first.endswith("s left")
    assert second.startswith("tokenizing: 2,000 tokens, ") and "left" not in second


def test_slow_units_keep_their_digits(capfd, monkeypatch):
    clock = iter([0.0, 10.0])
    monkeypatch.setattr("collapse.progress.time.monotonic", lambda: next(clock))
    Progress("attention", "layers").update(2, 0.25)
    assert capfd.readouterr().err == "attention: 2 layers, 0.2/s, 25%, about 30 s left\n"
