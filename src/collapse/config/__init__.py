"""The config: pydantic sections, the grid and its runs, identities, paths. Imports neither torch nor datasets."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from collapse.config.base import ConfigError as ConfigError
    from collapse.config.model import ModelConfig as ModelConfig
    from collapse.config.root import Config as Config
    from collapse.config.root import load as load
    from collapse.config.root import parse as parse
    from collapse.config.run import RunSpec as RunSpec
    from collapse.config.training import TrainingConfig as TrainingConfig

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "base": ["ConfigError"],
        "model": ["ModelConfig"],
        "root": ["Config", "load", "parse"],
        "run": ["RunSpec"],
        "training": ["TrainingConfig"],
    },
)
