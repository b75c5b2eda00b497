from .decoder import Decoder as Decoder
from .hugging_face import to_hugging_face as to_hugging_face
