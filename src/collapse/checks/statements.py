"""Statements that are checked number by number: what each says, and how far a measurement is from it."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

Relation = Literal["equals", "at most", "at least"]
EXACT = 1e-9
"""Tolerance of what holds up to rounding in float64."""
SAMPLED = 4.0
"""Tolerance of Monte Carlo means, whose scale is their standard error."""


@dataclass(frozen=True)
class Statement:
    """A statement of the form "measured relates to stated"."""

    relation: Relation
    source: str
    about: str
    tolerance: float = EXACT
    """Largest excess over the relation, in units of the comparison's scale, that is rounding or sampling noise."""


class Comparison(NamedTuple):
    """Measured and stated numbers, and the size that their difference is to be seen against; they broadcast."""

    measured: ArrayLike
    stated: ArrayLike
    scale: ArrayLike


def excess(relation: Relation, comparison: Comparison) -> NDArray[np.float64]:
    """By how much the relation is violated, in units of the scale: negative where it holds with room to spare.

    For `equals` the distance. NaN where the scale is 0: nothing was compared.
    """
    measured, stated, scale = (np.asarray(part, np.float64) for part in comparison)
    difference = stated - measured if relation == "at least" else measured - stated
    with np.errstate(divide="ignore", invalid="ignore"):
        violation: NDArray[np.float64] = np.where(scale > 0, difference / scale, np.nan)
    return np.abs(violation) if relation == "equals" else violation


def worst(relation: Relation, comparison: Comparison) -> Comparison:
    """The one comparison among many that is furthest from the relation; one of NaN if there is any."""
    parts = (np.asarray(part, np.float64) for part in comparison)
    measured, stated, scale = (part.ravel() for part in np.broadcast_arrays(*parts))
    at = int(np.argmax(excess(relation, Comparison(measured, stated, scale))))
    return Comparison(measured[at], stated[at], scale[at])


STATEMENTS: dict[str, Statement] = {
    "theorem-3.6": Statement(
        "at most", "Theorem 3.6",
        "at exact collapse ||dL/dX_k|| is at most c(y_k, alpha_k) ||dL/dX_(k+1)||, in every sublayer",
    ),
    "theorem-3.6-layer": Statement(
        "at most", "Remark to Theorem 3.6",
        "at exact collapse ||dL/dX_1|| is at most c_1 c_2 times the ||dL/dX_1|| of the next layer",
    ),
    "theorem-3.6-depth": Statement(
        "at most", "Remark to Theorem 3.6",
        "at exact collapse ||dL/dX_1|| of layer 1 is at most the product of all c times ||dL/dX^H||",
    ),
    "proposition-d1-rows": Statement(
        "at most", "Proposition D.1",
        "sqrt(d)/||y_i|| is at most c_0 (1 + 2 sqrt(n delta/(1 - delta))) for every row, delta up to 1/(4n + 1)",
    ),
    "proposition-d1-gradient": Statement(
        "at most", "Proposition D.1",
        "near collapse ||dL/dX_k|| is at most c_0 (1 + 2 sqrt(n delta/(1 - delta))) alpha_k ||dL/dX_(k+1)||",
    ),
    "proposition-d2-orthogonal": Statement(
        "equals", "Proposition D.2",
        "at exact collapse every row of dL/dY_k is orthogonal to every row of Y_k",
    ),
    "proposition-d2-output": Statement(
        "equals", "Proposition D.2",
        "a gradient step on W_O at exact collapse adds eta^2 ||U_1||^2 to ||Y_1||^2",
    ),
    "proposition-d2-output-growth": Statement(
        "at least", "Proposition D.2",
        "a gradient step on W_O at exact collapse makes ||Y_1|| grow, for every eta > 0 where U_1 != 0", 0.0,
    ),
    "proposition-d2-down": Statement(
        "equals", "Proposition D.2",
        "a gradient step on W_2 at exact collapse adds eta^2 ||U_2||^2 to ||Y_2||^2",
    ),
    "proposition-d2-down-growth": Statement(
        "at least", "Proposition D.2",
        "a gradient step on W_2 at exact collapse makes ||Y_2|| grow, for every eta > 0 where U_2 != 0", 0.0,
    ),
    "lemma-e1": Statement(
        "equals", "Lemma E.1",
        "attention, FFN and RMSNorm keep row-constant states row-constant, through a whole network",
    ),
    "lemma-e2-hidden": Statement(
        "equals", "Lemma E.2",
        "where the output is the frequency distribution, dL/dX^H has zero column sum",
    ),
    "lemma-e2-head": Statement(
        "equals", "Lemma E.2",
        "where the output is the frequency distribution and X^H is row-constant, dL/dW_lm = 0",
    ),
    "theorem-e3-ffn-parameters": Statement(
        "equals", "Theorem E.3 (a)",
        "for row-constant X and dL/dY of zero column sum, all FFN parameter gradients are 0",
    ),
    "theorem-e3-ffn-input": Statement(
        "equals", "Theorem E.3 (a)",
        "for row-constant X and dL/dY of zero column sum, FFN keeps the column sum of dL/dX zero",
    ),
    "theorem-e3-attention-parameters": Statement(
        "equals", "Theorem E.3 (b)",
        "for row-constant X and dL/dY of zero column sum, all attention parameter gradients are 0",
    ),
    "theorem-e3-attention-input": Statement(
        "equals", "Theorem E.3 (b)",
        "for row-constant X and dL/dY of zero column sum, attention keeps the column sum of dL/dX zero",
    ),
    "lemma-e4": Statement(
        "equals", "Lemma E.4",
        "RMSNorm of a row-constant Y hands a gradient of zero column sum on as one of zero column sum",
    ),
    "theorem-3.8-collapsed": Statement(
        "at least", "Theorem 3.8 (i)",
        "a collapsed network's loss is at least the frequency loss",
    ),
    "theorem-3.8-attained": Statement(
        "equals", "Appendix E.1",
        "a collapsed network that outputs the frequency distribution has the frequency loss",
    ),
    "theorem-3.8-near": Statement(
        "at least", "Theorem 3.8 (i)",
        "near collapse the loss is at least the frequency loss minus 2/sqrt(n) ||W_lm||_2 epsilon",
    ),
    "theorem-3.8-vanishing": Statement(
        "equals", "Theorem 3.8 (ii)",
        "a collapsed network that outputs the frequency distribution has zero gradients in every sublayer",
    ),
    "theorem-c3-projected": Statement(
        "equals", "Theorem C.3",
        "E ||Pi Y||^2 of attention over W, for P = C_n and the Gram matrix R_eq(t)", SAMPLED,
    ),
    "theorem-c3-total": Statement(
        "equals", "Theorem C.3",
        "E ||Y||^2 of attention over W, for P = C_n and the Gram matrix R_eq(t)", SAMPLED,
    ),
    "corollary-3.3-projected": Statement(
        "equals", "Corollary 3.3",
        "E ||Pi Y||^2 with (1 - a) C_n in place of P, factor d^2 sigma_W^2", SAMPLED,
    ),
    "corollary-3.3-total": Statement(
        "equals", "Corollary 3.3",
        "E ||Y||^2 with (1 - a) C_n in place of P, factor d^2 sigma_W^2", SAMPLED,
    ),
    "erratum-c3-projected": Statement(
        "at least", "Appendix C.3",
        "the factor d sigma_W^2 that the proof of Corollary 3.3 prints misses E ||Pi Y||^2 by 10 standard errors",
    ),
    "erratum-c3-total": Statement(
        "at least", "Appendix C.3",
        "the factor d sigma_W^2 that the proof of Corollary 3.3 prints misses E ||Y||^2 by 10 standard errors",
    ),
    "theorem-3.4-projected": Statement(
        "equals", "Appendix C.4",
        "E ||Pi Y||^2 of SwiGLU over its weights, for the Gram matrix R_eq(t)", SAMPLED,
    ),
    "theorem-3.4-total": Statement(
        "equals", "Appendix C.4",
        "E ||Y||^2 of SwiGLU over its weights, for the Gram matrix R_eq(t)", SAMPLED,
    ),
    "lemma-c4": Statement("equals", "Lemma C.4", "E ||y_i||^2 of SwiGLU is the same in every row, as stated", SAMPLED),
    "lemma-c5": Statement(
        "equals", "Lemma C.5",
        "E ||y_i||^2 of attention is alpha + beta/i, for P = C_n and the Gram matrix R_eq(t)", SAMPLED,
    ),
    "theorem-c6-lower": Statement(
        "at least", "Theorem C.6",
        "tsim(T Y) is at least its lower bound, for random T with eta < 1",
    ),
    "theorem-c6-upper": Statement(
        "at most", "Theorem C.6",
        "tsim(T Y) is at most its upper bound, for random T with eta < 1",
    ),
    "lemma-c7": Statement(
        "at most", "Lemma C.7",
        "the ratio xi_1/xi_2 leaves m_1/m_2 by epsilon no more often than the lemma's two events occur",
    ),
    "lemma-c11-centers": Statement(
        "equals", "Lemma C.11",
        "E[xi_1 | X, P] and E[xi_2 | X, P] of attention with its real P, over W", SAMPLED,
    ),
}  # fmt: skip
"""Every statement about collapsed states and expectations, by name."""
