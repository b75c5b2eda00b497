"""The config: pydantic sections, the grid with its runs, and their identities. Imports neither torch nor datasets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
