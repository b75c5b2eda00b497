import pytest

from collapse.pipeline.layers import layers_shown


@pytest.mark.parametrize(
    ("count", "stride", "layers"),
    [
        (48, 5, [1, 5, 10, 15, 20, 25, 30, 35, 40, 45, 48]),
        (24, 5, [1, 5, 10, 15, 20, 24]),
        (1, 5, [1]),
        (3, 1, [1, 2, 3]),
    ],
)
def test_layers_shown(count: int, stride: int, layers: list[int]) -> None:
    assert layers_shown(count, stride) == layers
