"""The paper's closed forms, vectorised over arrays, in float64; docs/theory.md lists which is which statement."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
