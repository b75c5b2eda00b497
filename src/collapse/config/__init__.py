"""The config: pydantic sections, the grid and its runs, identities, paths. Imports neither torch nor datasets."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
