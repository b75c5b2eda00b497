"""The page that explains every recorded quantity, generated from the table of metrics."""

from collapse.recording.statistics import METRICS

_INTRODUCTION = """\
# Recorded quantities

<!-- Generated from src/collapse/recording/statistics.py by `collapse docs`. -->

Variables of a run's store, `results/<name>/runs/<run_id>/metrics.zarr`. `step` is the optimizer step s, counted from
0: the state after s updates, as its own forward and backward pass sees it. `layer` runs from 1 to L, `sublayer` is
`attention` (k = 1) or `ffn` (k = 2). X_k is the input of a sublayer, Y_k its output with the residual added;
gradients are of the mean loss of the whole batch, before clipping. Forward quantities are means over the tokens of a
sequence, and then over the batch's sequences. NaN means that a quantity was not measured. Theorems and figures are
the paper's.

| variable | dims | meaning | units | defined in |
| --- | --- | --- | --- | --- |
"""


def page() -> str:
    """The page, in Markdown: every metric with its dimensions, meaning, units and origin."""
    rows = []
    for metric in METRICS:
        meaning = metric.long_name.replace("|", r"\|")
        cells = (f"`{metric.name}`", ", ".join(metric.dims) or "none", meaning, metric.units, metric.origin)
        rows.append(f"| {' | '.join(cells)} |\n")
    return _INTRODUCTION + "".join(rows)
