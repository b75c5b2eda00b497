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
    "tsim_heatmap": (
        "1 − token similarity of every sublayer's input over the run, on a logarithmic scale: dark is collapsed. Each "
        "layer is two rows, attention below its FFN. Dashed: the transition step."
    ),
}
_PAPER = {
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
