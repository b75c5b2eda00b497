import pytest

from collapse.config.option import parse_option
from collapse.config.run import DataSpec
from collapse.errors import CollapseError


def test_all_problems_of_a_spec_are_named():
    text = (
        '{"corpus": {"source": "sample", "documents": 0}, "tokens": {"tokenizer": {"kind": "train", "vocab_size": 2}}}'
    )
    with pytest.raises(CollapseError, match=r"^--spec: corpus\.documents: .*vocab_size: ") as caught:
        parse_option(DataSpec, "--spec", text)
    assert "\n" not in str(caught.value)


def test_what_is_no_json_is_refused():
    with pytest.raises(CollapseError, match=r"--spec: should be JSON: .* \(got '\{'\)"):
        parse_option(DataSpec, "--spec", "{")
