"""What makes two specs the same: canonical JSON, its digest, and readable names made from both."""

import hashlib
import json
from decimal import Decimal
from typing import Any


def canonical_json(value: Any) -> str:
    """JSON with sorted keys and no spaces: equal text for equal specs."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)


def digest(value: Any, length: int = 8) -> str:
    """The first hex digits of the SHA-256 of the canonical JSON."""
    return hashlib.sha256(canonical_json(value).encode()).hexdigest()[:length]


def number_label(value: float) -> str:
    """A number as it appears in paths, such as `8e-04` or `1.25e-03`; equal floats give equal labels."""
    mantissa, _, exponent = f"{Decimal(repr(value)).normalize():e}".partition("e")
    return f"{mantissa}e{int(exponent):+03d}".replace("e+", "e")
