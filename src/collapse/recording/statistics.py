"""The table of recorded quantities: names, meanings, units, and how each follows from what the taps collect.

To add a metric that follows from what is collected already, add one entry here: it then appears in every store, in
`open_run` and in the docs (docs/extending.md says what other metrics need). Functions use
tensor methods only, so that stores can be read, and this table imported, without torch.

Sublayers are numbered j = 1..2L through the stack (attention, ffn, attention, ...). Boundary j lies behind sublayer j
and in front of sublayer j + 1: there Y is the output of sublayer j, and X the input of sublayer j + 1. Boundary 0 lies
behind the embedding, boundary 2L in front of the LM head.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    from torch import Tensor

Source = Literal["Y", "X"]
SUBLAYERS = ("attention", "ffn")
LAYERWISE = ("step", "layer", "sublayer")
STEPWISE = ("step",)


@dataclass(frozen=True)
class Moments:
    """Sufficient statistics of the sequences of a micro-batch at every boundary.

    `row_sq` is (boundaries, B, n): squared norms of the rows of Y. The others are (boundaries, B): the squared norm of
    the mean row, and the squared Frobenius norm of the rows minus their mean, of Y and of X.
    """

    width: int
    row_sq: "Tensor"
    y_mean_sq: "Tensor"
    y_centred_sq: "Tensor"
    x_mean_sq: "Tensor"
    x_centred_sq: "Tensor"

    @property
    def tokens(self) -> int:
        """Tokens a sequence, n."""
        return int(self.row_sq.shape[-1])

    @property
    def rms_factors(self) -> "Tensor":
        """sqrt(d)/||y|| of every row, (boundaries, B, n)."""
        return (self.row_sq / self.width).rsqrt()


@dataclass(frozen=True)
class Metric:
    """A recorded quantity: a variable of a run's Dataset."""

    name: str
    dims: tuple[str, ...]
    long_name: str
    units: str
    origin: str
    """Where it is defined: a theorem, equation or figure of the paper."""


@dataclass(frozen=True)
class ForwardMetric(Metric):
    """A mean over the batch's sequences, from the forward pass.

    `value` maps moments to (boundaries, B); `of` says whether it describes the sublayer in front of the boundary (Y) or
    the one behind it (X).
    """

    of: Source
    value: Callable[[Moments], "Tensor"]


@dataclass(frozen=True)
class DerivedMetric(Metric):
    """A function of other layerwise metrics, elementwise over arrays (step, layer, sublayer).

    The mapping also holds `grad_next`: ||dL/dX_(k+1)||_F, aligned with sublayer k.
    """

    value: Callable[[Mapping[str, Any]], Any]


def _layerwise(name: str, long_name: str, units: str, origin: str) -> Metric:
    return Metric(name, LAYERWISE, long_name, units, origin)


def _stepwise(name: str, long_name: str, units: str, origin: str) -> Metric:
    return Metric(name, STEPWISE, long_name, units, origin)


def _similarity(moments: Moments, mean_sq: "Tensor", centred_sq: "Tensor") -> "Tensor":
    """||mean rows||_F^2 / ||X||_F^2, with ||X||_F^2 as the sum of its two orthogonal parts: never above 1."""
    along = moments.tokens * mean_sq
    return along / (along + centred_sq)


def _diversity(moments: Moments, mean_sq: "Tensor", centred_sq: "Tensor") -> "Tensor":
    return centred_sq / (moments.tokens * mean_sq + centred_sq)


def rms_spread(factors: "Tensor") -> "Tensor":
    """eta of Theorem C.6 for RMSNorm factors (..., n), whatever they are all multiplied by: (...)."""
    mean = factors.mean(-1)
    return (factors - mean.unsqueeze(-1)).abs().amax(-1) / mean


FORWARD: tuple[ForwardMetric, ...] = (
    ForwardMetric(
        "tsim_x", LAYERWISE, "token similarity of the sublayer's input X_k", "1", "Definition 2.1",
        of="X", value=lambda m: _similarity(m, m.x_mean_sq, m.x_centred_sq),
    ),
    ForwardMetric(
        "tsim_y", LAYERWISE, "token similarity of the sublayer's output Y_k", "1", "Definition 2.1",
        of="Y", value=lambda m: _similarity(m, m.y_mean_sq, m.y_centred_sq),
    ),
    ForwardMetric(
        "tdiv_x", LAYERWISE, "token diversity, 1 - token similarity, of X_k, from centred rows", "1", "Appendix B",
        of="X", value=lambda m: _diversity(m, m.x_mean_sq, m.x_centred_sq),
    ),
    ForwardMetric(
        "tdiv_y", LAYERWISE, "token diversity, 1 - token similarity, of Y_k, from centred rows", "1", "Appendix B",
        of="Y", value=lambda m: _diversity(m, m.y_mean_sq, m.y_centred_sq),
    ),
    ForwardMetric(
        "residual_rms", LAYERWISE, "mean over tokens of ||y||/sqrt(d), y a row of Y_k", "1", "Section 4.2",
        of="Y", value=lambda m: (m.row_sq / m.width).sqrt().mean(-1),
    ),
    ForwardMetric(
        "rms_factor", LAYERWISE, "mean over tokens of the RMSNorm factor sqrt(d)/||y||", "1", "Figure 4 (a, c)",
        of="Y", value=lambda m: m.rms_factors.mean(-1),
    ),
    ForwardMetric(
        "rms_factor_mean_token", LAYERWISE, "RMSNorm factor of the mean token, c0 = sqrt(d)/||mean row of Y_k||", "1",
        "Proposition D.1", of="Y", value=lambda m: (m.y_mean_sq / m.width).rsqrt(),
    ),
    ForwardMetric(
        "rms_spread", LAYERWISE, "spread of the RMSNorm factors, eta = max |factor - mean| / mean over tokens", "1",
        "Theorem C.6", of="Y", value=lambda m: rms_spread(m.rms_factors),
    ),
)  # fmt: skip

GRADIENT: tuple[Metric, ...] = (
    _layerwise("grad_x", "gradient norm ||dL/dX_k||_F of the global mean loss", "nats", "Definition 3.5"),
    _layerwise("grad_y", "gradient norm ||dL/dY_k||_F of the global mean loss", "nats", "Definition 3.5"),
    _layerwise("param_grad", "norm of the sublayer's parameter gradients before clipping", "nats", "Figure 5"),
)

DERIVED: tuple[DerivedMetric, ...] = (
    DerivedMetric(
        "alpha", LAYERWISE, "sublayer gradient contribution ||dL/dX_k|| / ||dL/dY_k||", "1", "Definition 3.5",
        value=lambda v: v["grad_x"] / v["grad_y"],
    ),
    DerivedMetric(
        "contraction", LAYERWISE, "contraction factor c = alpha * rms_factor", "1", "Theorem 3.6",
        value=lambda v: v["grad_x"] / v["grad_y"] * v["rms_factor"],
    ),
    DerivedMetric(
        "transport", LAYERWISE, "measured gradient transport ||dL/dX_k|| / ||dL/dX_(k+1)||", "1", "Theorem 3.6",
        value=lambda v: v["grad_x"] / v["grad_next"],
    ),
)  # fmt: skip

STEP: tuple[Metric, ...] = (
    _stepwise("loss", "training loss, mean over the global batch", "nats", "Section 4"),
    _stepwise("lr", "learning rate of the step", "1", "Section 4"),
    _stepwise("grad_norm", "global norm of the parameter gradients before clipping", "nats", "Section 4"),
    _stepwise("tokens", "tokens trained on, this step's batch included", "tokens", "Section 4"),
    _stepwise("tsim_final", "token similarity of X^H, the LM head's input", "1", "Figure 3 (b)"),
    _stepwise("tdiv_final", "token diversity of X^H, the LM head's input", "1", "Figure 3 (b)"),
    _stepwise("freq_loss_batch", "frequency loss of the batch's pooled labels", "nats", "Definition 3.7"),
    _stepwise("freq_loss_sequence", "mean over the batch's sequences of their frequency losses", "nats", "Section 4.3"),
    _stepwise("collapse_epsilon", "epsilon = ||X^H - mean row||_F, mean over sequences", "1", "Theorem 3.8 (i)"),
    _stepwise("lm_head_norm", "spectral norm of the LM head, every record.floor_every steps", "1", "Theorem 3.8 (i)"),
    _stepwise("loss_floor", "lower bound on the loss, every record.floor_every steps", "nats", "Theorem 3.8 (i)"),
)

RUN: tuple[Metric, ...] = (
    Metric("freq_loss", (), "frequency loss of the pooled labels of the run's own scope", "nats", "Section 4.3"),
    Metric("validation_loss", (), "loss of the final parameters on held-out sequences", "nats", "Section 4"),
)

METRICS: tuple[Metric, ...] = (*FORWARD, *GRADIENT, *DERIVED, *STEP, *RUN)
