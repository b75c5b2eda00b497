"""What each figure shows, and what the paper's figure with the same number shows. Imports no plotting library."""

_MASKED = "where either gradient norm is below figures.mask_gradient_below (1e-10 by default; Appendix F.4)"
_SHOWN = {
    "overview": (
        "(a) Training loss and (b) last-layer token similarity of all runs on the text stream, running means over nine "
        "steps; the thick dark curve, drawn over the others, is the run of (c) and (d). (c) 1 − token similarity of "
        "every sublayer's input: dark is collapsed. (d) Norm of the gradient that arrives there. Each layer is two "
        "rows, attention below its FFN."
    ),
    "gradient_contribution": (
        "(a) Training loss; dotted, the frequency loss. (b) Token similarity of the last layer's output. (c, d) "
        "Gradient contribution α = ‖∂L/∂X‖ / ‖∂L/∂Y‖ of the attention and FFN sublayers, by layer. "
        f"α is left out {_MASKED}. Dashed: the transition step."
    ),
    "contraction": (
        "(a, c) RMSNorm factor √d/‖y‖ and (b, d) contraction factor c = α √d/‖y‖ of the attention and FFN sublayers, "
        "by layer; a sublayer with c < 1 shrinks the gradient. "
        f"c is left out {_MASKED}. Dashed: the transition step; blue before it, red after it. A run without a "
        "transition is shown whole."
    ),
    "gradient_norms": (
        "(a) Norm of the gradient that arrives at each layer's input, (b) norm of the gradient of each layer's "
        "parameters before clipping; a curve a step, up to eleven steps spread over the transition, or over the whole "
        "run where there was none."
    ),
    "frequency_loss": (
        "Training loss, thin, and its running mean over nine steps; dotted, the entropy of the label frequencies of "
        "the data that the run was trained on. (a) Runs without warmup on the whole stream, on one batch and on one "
        "sequence. (b) Warmed-up Post-Norm runs by peak learning rate. Markers tell curves apart that lie on "
        "each other."
    ),
    "increments": (
        "Change of token similarity by one sublayer at initialization: rows Post-Norm and Pre-Norm, columns attention "
        "and FFN, on scales of their own; colours, the factor on the variance of the sublayer matrices. Solid: "
        "measured, mean and band of ± 1 standard deviation over seeds. Dashed: Theorem 3.2 (attention) and Theorem "
        "3.4 (FFN) at the measured token similarity of the sublayer's input."
    ),
    "deescalation": (
        "Token similarity of each layer's output at initialization with P − a Cₙ in place of the attention matrix P, "
        "by a (Corollary 3.3); Cₙ averages over each causal prefix. Mean and band of ± 1 standard deviation over "
        "seeds."
    ),
    "swiglu_moment": (
        "(a) m(ρ) = E[SiLU(u) SiLU(v)] for normal u and v of variance σ² and correlation ρ (Theorem 3.4), lines by "
        "quadrature, points by Monte Carlo; the legend has m(0) and m(1). σ² = 1/3 is standard initialization. (b) "
        "Monte Carlo minus quadrature in standard errors, ± 2 in grey; all points share their draws, so that their "
        "errors go together."
    ),
    "attention_moment": (
        "Relative Frobenius error of E[P] E[X Xᵀ] E[Pᵀ] in place of E[P X Xᵀ Pᵀ] at initialization, Post-Norm, by "
        "layer: (a) of the matrices, (b) of their projections onto the mean token (Appendix F.1). Expectations over "
        "initializations and heads; bands are ± 2 standard errors."
    ),
    "prefix_average": (
        "Relative Frobenius distance of the mean attention matrix from the prefix average Cₙ at initialization, "
        "Post-Norm, by layer (Appendix F.2). Blue: mean over all initializations and heads, ± 2 standard errors. "
        "Grey: over the heads of each initialization alone. Dashed: what would remain with infinitely many "
        "initializations."
    ),
    "approximation_split": (
        "Why the formula for attention's increment (Theorem 3.2) differs from what is measured, split into its three "
        "approximations, taken in turn: Cₙ in place of P; the ratio of expectations in place of the expectation of "
        "the ratio; equally correlated tokens in place of the actual Gram matrix. The three gaps add up to the grey "
        "curve. In the corner, where three networks or more were measured, the largest gap and its share of the three, "
        "by mean size over the layers, ± the half-width of its 95 % interval."
    ),
    "depth_recursion": (
        "Token similarity of each layer's output at initialization; colours, the factor on the variance of the "
        "sublayer matrices. Solid: measured, mean and band of ± 1 standard deviation over seeds. Dashed: Theorems 3.2 "
        "and 3.4 iterated from the token similarity of the input alone."
    ),
    "row_norms": (
        "Mean square entry of row i of a sublayer's output at initialization: mean and band of ± 1 standard deviation "
        "over seeds. Dashed: α + β/i (a; Lemma C.5) and the same at every position (b; Lemma C.4)."
    ),
    "concentration": (
        "ξ₁ = ‖ΠY‖²/‖ΠX‖² and ξ₂ = ‖Y‖²/‖X‖² over draws of a sublayer's weights (Lemmas C.11 and C.12). (a) Standard "
        "deviation by width: points measured, lines exact for Gaussian weights. (b) Share of draws further than ε "
        "from the expectation, against the exponent of the bound; dashed, the bound's shape with the largest constant "
        "c that all curves allow. Faint: fewer than ten draws, which do not count for c."
    ),
    "tsim_heatmap": (
        "1 − token similarity of every sublayer's input over the run, on a logarithmic scale: dark is collapsed. Each "
        "layer is two rows, attention below its FFN. Dashed: the transition step."
    ),
}
_PAPER = {
    "increments": (
        "attention's increment is positive, its sign and scale captured by the theorem with a visible mismatch; the "
        "FFN's is negative and much smaller; Post-Norm rises quickly and saturates, Pre-Norm grows more gradually"
    ),
    "deescalation": "as a goes from 0 to 1 growth is suppressed throughout, and a = 1 removes most of it",
    "swiglu_moment": "m(ρ) at standard initialization increases from m(0) ≈ 0.006 to m(1) ≈ 0.100",
    "attention_moment": "both errors are small in all 48 layers",
    "prefix_average": (
        "over 32 initializations the error is about 2.7 % in the first layer and 1.2 % in layer 48, 2.1 % on average"
    ),
    "gradient_contribution": "α rises around the transition and stays below 2.5",
    "contraction": (
        "√d/‖y‖ and with it c drop sharply after the transition begins, in most sublayers below 1; attention of layer "
        "1 is the exception"
    ),
    "gradient_norms": "gradients of early layers drop by orders of magnitude, those of late layers change little",
    "frequency_loss": (
        "without warmup, each scope's loss approaches the frequency loss of its own labels; with warmup, the runs at "
        "1.2e-3, 1.5e-3 and 1.8e-3 rise to the frequency loss of the stream and stay there"
    ),
}
_PAPER_RUNS = {
    range(3, 6): "lr 8e-4, transition at step 2644",
    range(10, 12): "lr 8e-4, another seed, transition at step 1979",
    range(12, 15): "lr 1.2e-3",
    range(15, 18): "lr 1.5e-3",
    range(18, 21): "lr 1.8e-3",
}


def shown(family: str) -> str:
    """What a figure of a family shows."""
    return _SHOWN[family]


def in_paper(family: str, number: int | None) -> str | None:
    """What the paper's figure of that number shows, in a sentence; None for figures that the paper does not have."""
    if number is None:
        return None
    if number in (21, 22):
        return "In the paper (lr 6e-4, 40,000 steps without collapse): token similarity stays away from 1."
    run = next((about for numbers, about in _PAPER_RUNS.items() if number in numbers), None)
    return f"In the paper{f' ({run})' if run else ''}: {_PAPER[family]}."
