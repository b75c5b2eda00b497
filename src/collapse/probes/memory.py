"""Memory that a probe foresees, against what the machine has."""

import psutil

from collapse.errors import CollapseError


def require_memory(needed: int, advice: str) -> None:
    """Refuse work that would not fit, before it starts.

    Args:
        needed: Bytes that it is foreseen to take.
        advice: How to take less.

    Raises:
        CollapseError: where less is available.
    """
    available = psutil.virtual_memory().available
    if needed > available:
        raise CollapseError(
            f"this needs about {needed / 1e9:.1f} GB of memory, and {available / 1e9:.1f} GB are available: {advice}"
        )
