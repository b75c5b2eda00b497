import pytest
from pydantic import TypeAdapter

from collapse.config.run import DataSpec
from collapse.corpus.command import Progress, parse_spec
from collapse.errors import CollapseError


def test_all_problems_of_a_spec_are_named():
    text = (
        '{"corpus": {"source": "sample", "documents": 0}, "tokens": {"tokenizer": {"kind": "train", "vocab_size": 2}}}'
    )
    with pytest.raises(CollapseError, match=r"corpus\.documents: .*; tokens\.tokenizer\.vocab_size: ") as caught:
        parse_spec(TypeAdapter(DataSpec), text)
    assert "\n" not in str(caught.value)


def test_progress_prints_a_line_when_it_is_due(capfd):
    quiet, chatty = Progress("tokenizing", "tokens", seconds=60), Progress("tokenizing", "tokens", seconds=0)
    quiet.update(10, 0.5)
    chatty.update(1000, 0.5)
    chatty.update(2000, None)
    first, second = capfd.readouterr().err.splitlines()
    assert first.startswith("tokenizing: 1,000 tokens, ") and "50%, about" in first and first.endswith("s left")
    assert second.startswith("tokenizing: 2,000 tokens, ") and "left" not in second
