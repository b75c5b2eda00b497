import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from collapse.config.identity import canonical_json, digest, number_label
from collapse.config.root import parse


@pytest.mark.parametrize(
    ("value", "label"),
    [(8e-4, "8e-04"), (1.25e-3, "1.25e-03"), (1e-2, "1e-02"), (3.0, "3e00"), (10, "1e01"), (1.5e-3, "1.5e-03")],
)
def test_labels_are_readable(value: float, label: str) -> None:
    assert number_label(value) == label


@given(a=st.floats(1e-12, 1e6), b=st.floats(1e-12, 1e6))
def test_labels_are_equal_only_for_equal_numbers(a: float, b: float) -> None:
    assert (number_label(a) == number_label(b)) == (a == b)
    assert float(number_label(a)) == a


@given(st.dictionaries(st.text(), st.integers() | st.text() | st.none()))
def test_the_canonical_form_does_not_depend_on_order(value: dict[str, Any]) -> None:
    backwards = dict(reversed(list(value.items())))
    assert canonical_json(value) == canonical_json(backwards)
    assert digest(value) == digest(backwards)


def test_run_ids_are_readable(raw: dict[str, Any]) -> None:
    raw["grid"] = {
        "product": {"lr": [8e-4]},
        "extra": [{"placement": "pre", "seed": 2}, {"warmup_steps": 0}, {"warmup_steps": 0, "scope": "sequence"}],
    }
    forms = [
        "post-lr8e-04-seed0",
        "pre-lr1e-03-seed2",
        "post-lr1e-03-nowarmup-seed0",
        "post-lr1e-03-nowarmup-sequence-seed0",
    ]
    for run_id, form in zip(parse(raw).runs, forms, strict=True):
        assert re.fullmatch(form + "-[0-9a-f]{8}", run_id)
