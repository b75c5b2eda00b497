"""Which layers of a deep stack are looked at where all of them would be too many."""


def layers_shown(count: int, stride: int) -> list[int]:
    """Layers, counted from 1: the first, every multiple of the stride, and the last."""
    return sorted({1, *range(stride, count + 1, stride), count})
