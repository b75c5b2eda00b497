"""The paper's closed forms, vectorized over arrays, in float64; docs/theory.md lists the statement of each."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
