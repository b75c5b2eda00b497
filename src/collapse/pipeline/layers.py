"""The layers that figures of a deep stack show."""


def layers_shown(count: int, stride: int) -> list[int]:
    """Layers, counted from 1: the first, every multiple of the stride, and the last."""
    return sorted({1, *range(stride, count + 1, stride), count})
