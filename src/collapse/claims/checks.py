"""Claims about constructed collapsed states and about expectations: one for each statement of `collapse.checks`."""

from functools import partial
from typing import NamedTuple

import xarray as xr

from collapse.analysis.uncertainty import Measured, select
from collapse.checks.statements import RELATIONS, Comparison, Relation, excess
from collapse.claims.judging import SAMPLED, Claim, Range

EXACT = 1e-9
"""Tolerance of statements that hold up to rounding in float64."""


class Text(NamedTuple):
    """What a statement says."""

    source: str
    """Where the paper states it."""
    about: str
    """The statement in one line."""
    tolerance: float = EXACT
    """Largest violation, in units of the comparison's scale, that rounding or sampling noise explains."""


TEXTS: dict[str, Text] = {
    "theorem-3.6": Text(
        "Theorem 3.6",
        "at exact collapse ||dL/dX_k|| is at most c(y_k, alpha_k) ||dL/dX_(k+1)||, in every sublayer",
    ),
    "theorem-3.6-layer": Text(
        "Remark to Theorem 3.6",
        "at exact collapse ||dL/dX_1|| is at most c_1 c_2 times the ||dL/dX_1|| of the next layer",
    ),
    "theorem-3.6-depth": Text(
        "Remark to Theorem 3.6",
        "at exact collapse ||dL/dX_1|| of layer 1 is at most the product of all c times ||dL/dX^H||",
    ),
    "proposition-d1-rows": Text(
        "Proposition D.1",
        "sqrt(d)/||y_i|| is at most c_0 (1 + 2 sqrt(n delta/(1 - delta))) for every row, delta up to 1/(4n + 1)",
    ),
    "proposition-d1-gradient": Text(
        "Proposition D.1",
        "near collapse ||dL/dX_k|| is at most c_0 (1 + 2 sqrt(n delta/(1 - delta))) alpha_k ||dL/dX_(k+1)||",
    ),
    "proposition-d2-orthogonal": Text(
        "Proposition D.2",
        "at exact collapse every row of dL/dY_k is orthogonal to every row of Y_k",
    ),
    "proposition-d2-output": Text(
        "Proposition D.2",
        "a gradient step on W_O at exact collapse adds eta^2 ||U_1||^2 to ||Y_1||^2",
    ),
    "proposition-d2-output-growth": Text(
        "Proposition D.2",
        "a gradient step on W_O at exact collapse makes ||Y_1|| grow, for every eta > 0 where U_1 != 0", 0.0,
    ),
    "proposition-d2-down": Text(
        "Proposition D.2",
        "a gradient step on W_2 at exact collapse adds eta^2 ||U_2||^2 to ||Y_2||^2",
    ),
    "proposition-d2-down-growth": Text(
        "Proposition D.2",
        "a gradient step on W_2 at exact collapse makes ||Y_2|| grow, for every eta > 0 where U_2 != 0", 0.0,
    ),
    "lemma-e1": Text(
        "Lemma E.1",
        "attention, FFN and RMSNorm keep row-constant states row-constant, through a whole network",
    ),
    "lemma-e2-hidden": Text(
        "Lemma E.2",
        "where the output is the frequency distribution, dL/dX^H has zero column sum",
    ),
    "lemma-e2-head": Text(
        "Lemma E.2",
        "where the output is the frequency distribution and X^H is row-constant, dL/dW_lm = 0",
    ),
    "theorem-e3-ffn-parameters": Text(
        "Theorem E.3 (a)",
        "for row-constant X and dL/dY of zero column sum, all FFN parameter gradients are 0",
    ),
    "theorem-e3-ffn-input": Text(
        "Theorem E.3 (a)",
        "for row-constant X and dL/dY of zero column sum, FFN keeps the column sum of dL/dX zero",
    ),
    "theorem-e3-attention-parameters": Text(
        "Theorem E.3 (b)",
        "for row-constant X and dL/dY of zero column sum, all attention parameter gradients are 0",
    ),
    "theorem-e3-attention-input": Text(
        "Theorem E.3 (b)",
        "for row-constant X and dL/dY of zero column sum, attention keeps the column sum of dL/dX zero",
    ),
    "lemma-e4": Text(
        "Lemma E.4",
        "RMSNorm of a row-constant Y hands a gradient of zero column sum on as one of zero column sum",
    ),
    "theorem-3.8-collapsed": Text(
        "Theorem 3.8 (i)",
        "a collapsed network's loss is at least the frequency loss",
    ),
    "theorem-3.8-attained": Text(
        "Appendix E.1",
        "a collapsed network that outputs the frequency distribution has the frequency loss",
    ),
    "theorem-3.8-near": Text(
        "Theorem 3.8 (i)",
        "near collapse the loss is at least the frequency loss minus 2/sqrt(n) ||W_lm||_2 epsilon",
    ),
    "theorem-3.8-vanishing": Text(
        "Theorem 3.8 (ii)",
        "a collapsed network that outputs the frequency distribution has zero gradients in every sublayer",
    ),
    "theorem-c3-projected": Text(
        "Theorem C.3",
        "E ||Pi Y||^2 of attention over W, for P = C_n and the Gram matrix R_eq(t)", SAMPLED,
    ),
    "theorem-c3-total": Text(
        "Theorem C.3",
        "E ||Y||^2 of attention over W, for P = C_n and the Gram matrix R_eq(t)", SAMPLED,
    ),
    "corollary-3.3-projected": Text(
        "Corollary 3.3",
        "E ||Pi Y||^2 with (1 - a) C_n in place of P, factor d^2 sigma_W^2", SAMPLED,
    ),
    "corollary-3.3-total": Text(
        "Corollary 3.3",
        "E ||Y||^2 with (1 - a) C_n in place of P, factor d^2 sigma_W^2", SAMPLED,
    ),
    "erratum-c3-projected": Text(
        "Appendix C.3",
        "the factor d sigma_W^2 that the proof of Corollary 3.3 prints misses E ||Pi Y||^2 by 10 standard errors",
    ),
    "erratum-c3-total": Text(
        "Appendix C.3",
        "the factor d sigma_W^2 that the proof of Corollary 3.3 prints misses E ||Y||^2 by 10 standard errors",
    ),
    "theorem-3.4-projected": Text(
        "Appendix C.4",
        "E ||Pi Y||^2 of SwiGLU over its weights, for the Gram matrix R_eq(t)", SAMPLED,
    ),
    "theorem-3.4-total": Text(
        "Appendix C.4",
        "E ||Y||^2 of SwiGLU over its weights, for the Gram matrix R_eq(t)", SAMPLED,
    ),
    "lemma-c4": Text("Lemma C.4", "E ||y_i||^2 of SwiGLU is the same in every row, as stated", SAMPLED),
    "lemma-c5": Text(
        "Lemma C.5",
        "E ||y_i||^2 of attention is alpha + beta/i, for P = C_n and the Gram matrix R_eq(t)", SAMPLED,
    ),
    "theorem-c6-lower": Text(
        "Theorem C.6",
        "tsim(T Y) is at least its lower bound, for random T with eta < 1",
    ),
    "theorem-c6-upper": Text(
        "Theorem C.6",
        "tsim(T Y) is at most its upper bound, for random T with eta < 1",
    ),
    "lemma-c7": Text(
        "Lemma C.7",
        "the ratio xi_1/xi_2 leaves m_1/m_2 by epsilon no more often than the lemma's two events occur",
    ),
    "lemma-c11-centers": Text(
        "Lemma C.11",
        "E[xi_1 | X, P] and E[xi_2 | X, P] of attention with its real P, over W", SAMPLED,
    ),
}  # fmt: skip
"""Name of each statement to what it says, in the order of `RELATIONS`."""


def violation(data: xr.Dataset, name: str) -> Measured:
    """How far each trial violates a statement, in units of the comparison's scale.

    Raises:
        NotMeasured: where the dataset does not have the statement.
    """
    found = select(data, statement=name)
    numbers = Comparison(*(found[part].values for part in Comparison._fields))
    return Measured(excess(RELATIONS[name], numbers))


def _quantity(relation: Relation, tolerance: float) -> str:
    if relation == "equals":
        unit = "standard errors" if tolerance == SAMPLED else "units of its natural size"
        return f"distance of measured and stated, in {unit}, largest over trials"
    side = "above" if relation == "at most" else "below"
    return f"how far measured is {side} stated, in units of scale, largest over trials; negative is slack"


CLAIMS = tuple(
    Claim(
        name,
        text.about,
        text.source,
        "",
        _quantity(RELATIONS[name], text.tolerance),
        Range(high=text.tolerance, closed=True),
        ("collapsed_states",),
        partial(violation, name=name),
    )
    for name, text in TEXTS.items()
)
"""Claims that the constructed states decide."""
