"""The statements that are checked number by number, and how far a measurement is from one."""

from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Relation = Literal["equals", "at most", "at least"]
"""How a measured number should relate to the stated one."""


class Comparison(NamedTuple):
    """Measured and stated numbers, and the size to compare their difference with; the three broadcast."""

    measured: ArrayLike
    stated: ArrayLike
    scale: ArrayLike


def excess(relation: Relation, comparison: Comparison) -> NDArray[np.float64]:
    """How far each comparison violates the relation, in units of its scale.

    Negative where the relation holds with room to spare; for `equals` the distance, never negative. NaN where the scale
    is 0, since nothing was compared.
    """
    measured, stated, scale = (np.asarray(part, np.float64) for part in comparison)
    difference = stated - measured if relation == "at least" else measured - stated
    with np.errstate(divide="ignore", invalid="ignore"):
        violation: NDArray[np.float64] = np.where(scale > 0, difference / scale, np.nan)
    return np.abs(violation) if relation == "equals" else violation


def worst(relation: Relation, comparison: Comparison) -> Comparison:
    """The comparison that is furthest from the relation; one whose excess is NaN, if there is any."""
    parts = (np.asarray(part, np.float64) for part in comparison)
    measured, stated, scale = (part.ravel() for part in np.broadcast_arrays(*parts))
    at = int(np.argmax(excess(relation, Comparison(measured, stated, scale))))
    return Comparison(measured[at], stated[at], scale[at])


RELATIONS: dict[str, Relation] = {
    "theorem-3.6": "at most",
    "theorem-3.6-layer": "at most",
    "theorem-3.6-depth": "at most",
    "proposition-d1-rows": "at most",
    "proposition-d1-gradient": "at most",
    "proposition-d2-orthogonal": "equals",
    "proposition-d2-output": "equals",
    "proposition-d2-output-growth": "at least",
    "proposition-d2-down": "equals",
    "proposition-d2-down-growth": "at least",
    "lemma-e1": "equals",
    "lemma-e2-hidden": "equals",
    "lemma-e2-head": "equals",
    "theorem-e3-ffn-parameters": "equals",
    "theorem-e3-ffn-input": "equals",
    "theorem-e3-attention-parameters": "equals",
    "theorem-e3-attention-input": "equals",
    "lemma-e4": "equals",
    "theorem-3.8-collapsed": "at least",
    "theorem-3.8-attained": "equals",
    "theorem-3.8-near": "at least",
    "theorem-3.8-vanishing": "equals",
    "theorem-c3-projected": "equals",
    "theorem-c3-total": "equals",
    "corollary-3.3-projected": "equals",
    "corollary-3.3-total": "equals",
    "erratum-c3-projected": "at least",
    "erratum-c3-total": "at least",
    "theorem-3.4-projected": "equals",
    "theorem-3.4-total": "equals",
    "lemma-c4": "equals",
    "lemma-c5": "equals",
    "theorem-c6-lower": "at least",
    "theorem-c6-upper": "at most",
    "lemma-c7": "at most",
    "lemma-c11-centers": "equals",
}
"""Name of each statement to its relation; `collapse.claims.checks` says what each one states."""
