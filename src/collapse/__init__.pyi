from . import theory as theory
from .analysis.summary import summarize as summarize
from .similarity import token_diversity as token_diversity
from .similarity import token_similarity as token_similarity
from .store.read import open_run as open_run
from .store.read import open_runs as open_runs

__version__: str
