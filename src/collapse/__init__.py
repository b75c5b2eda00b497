"""Why deep Post-Norm transformers collapse: runs, their measurements, and what they show."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from collapse.analysis.summary import summarize as summarize
    from collapse.similarity import token_diversity as token_diversity
    from collapse.similarity import token_similarity as token_similarity
    from collapse.store.read import open_run as open_run
    from collapse.store.read import open_runs as open_runs

__version__ = "0.1.0"

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "analysis.summary": ["summarize"],
        "similarity": ["token_diversity", "token_similarity"],
        "store.read": ["open_run", "open_runs"],
    },
)
