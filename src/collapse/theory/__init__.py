"""The paper's closed forms, vectorised over arrays, in float64; docs/theory.md lists which is which statement."""

from typing import TYPE_CHECKING

import lazy_loader

if TYPE_CHECKING:
    from collapse.theory.attention import SquaredNorms as SquaredNorms
    from collapse.theory.attention import amount_of_attention as amount_of_attention
    from collapse.theory.attention import attention_expectations as attention_expectations
    from collapse.theory.attention import attention_increment as attention_increment
    from collapse.theory.attention import folded_variance as folded_variance
    from collapse.theory.attention import harmonic_number as harmonic_number
    from collapse.theory.attention import prefix_average as prefix_average
    from collapse.theory.attention import token_correlation as token_correlation
    from collapse.theory.collapsed import contraction_factor as contraction_factor
    from collapse.theory.collapsed import frequency_distribution as frequency_distribution
    from collapse.theory.collapsed import frequency_loss as frequency_loss
    from collapse.theory.collapsed import loss_floor as loss_floor
    from collapse.theory.collapsed import near_collapse_bound as near_collapse_bound
    from collapse.theory.depth import DepthRecursion as DepthRecursion
    from collapse.theory.depth import depth_recursion as depth_recursion
    from collapse.theory.ffn import ffn_increment as ffn_increment
    from collapse.theory.ffn import swiglu_coefficient as swiglu_coefficient
    from collapse.theory.ffn import swiglu_moment as swiglu_moment
    from collapse.theory.normalization import SimilarityBounds as SimilarityBounds
    from collapse.theory.normalization import attention_row_norm as attention_row_norm
    from collapse.theory.normalization import ffn_row_norm as ffn_row_norm
    from collapse.theory.normalization import rms_similarity_bounds as rms_similarity_bounds

__getattr__, __dir__, __all__ = lazy_loader.attach(
    __name__,
    submod_attrs={
        "attention": [
            "SquaredNorms",
            "amount_of_attention",
            "attention_expectations",
            "attention_increment",
            "folded_variance",
            "harmonic_number",
            "prefix_average",
            "token_correlation",
        ],
        "collapsed": [
            "contraction_factor",
            "frequency_distribution",
            "frequency_loss",
            "loss_floor",
            "near_collapse_bound",
        ],
        "depth": ["DepthRecursion", "depth_recursion"],
        "ffn": ["ffn_increment", "swiglu_coefficient", "swiglu_moment"],
        "normalization": ["SimilarityBounds", "attention_row_norm", "ffn_row_norm", "rms_similarity_bounds"],
    },
)
