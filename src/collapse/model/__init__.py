"""The decoder: architecture, placements of the normalization, initialization, and its Hugging Face twin."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from collapse.model.decoder import Decoder as Decoder
    from collapse.model.hugging_face import to_hugging_face as to_hugging_face

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__, submod_attrs={"decoder": ["Decoder"], "hugging_face": ["to_hugging_face"]}
)
