from .base import ConfigError as ConfigError
from .model import ModelConfig as ModelConfig
from .root import Config as Config
from .root import load as load
from .root import parse as parse
from .run import RunSpec as RunSpec
from .training import TrainingConfig as TrainingConfig
