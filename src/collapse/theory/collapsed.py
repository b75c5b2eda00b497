"""Backward contraction and the loss floor of a collapsed network (Sections 3.2 and 3.3, Appendices D and E)."""

import numpy as np
from numpy.typing import ArrayLike

from collapse.corpus.frequencies import frequency_distribution as frequency_distribution
from collapse.corpus.frequencies import frequency_loss as frequency_loss
from collapse.theory.domain import Values, positive, whole, within


def contraction_factor(alpha: ArrayLike, residual_norm: ArrayLike, width: ArrayLike) -> Values:
    """c(y, alpha) = alpha sqrt(d)/||y||_2 (Theorem 3.6).

    At exact collapse ||dL/dX_k||_F <= c ||dL/dX_(k+1)||_F under Post-Norm, a contraction if c < 1.

    Args:
        alpha: Sublayer gradient contribution ||dL/dX_k||_F/||dL/dY_k||_F, at least 0 (Definition 3.5).
        residual_norm: ||y||_2 of the common row of Y_k, positive.
        width: Model width d.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    rms: Values = positive("residual_norm", residual_norm) / whole("width", width, 1) ** 0.5
    return within("alpha", alpha, 0) / rms


def near_collapse_bound(delta: ArrayLike, n: ArrayLike, c0: ArrayLike) -> Values:
    """c0 (1 + 2 sqrt(n delta/(1 - delta))), bounds the RMSNorm factor sqrt(d)/||y_i||_2 of each row (Proposition D.1).

    Multiplied by alpha, it bounds ||dL/dX_k||_F/||dL/dX_(k+1)||_F under Post-Norm.

    Args:
        delta: Token diversity 1 - tsim(Y_k), in [0, 1/(4 n + 1)].
        n: Sequence length, at least 1.
        c0: RMSNorm factor of the mean row, sqrt(d)/||mean row of Y_k||_2, at least 0.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    n = whole("n", n, 1)
    delta = within("delta", delta, 0, 1 / (4 * n + 1))
    u: Values = np.sqrt(n * delta / (1 - delta))
    return within("c0", c0, 0) * (1 + 2 * u)


def loss_floor(freq_loss: ArrayLike, epsilon: ArrayLike, lm_head_norm: ArrayLike, n: ArrayLike) -> Values:
    """L_freq - 2/sqrt(n) ||W_lm||_2 epsilon, a lower bound on a sequence's loss, in nats (Theorem 3.8 (i)).

    Args:
        freq_loss: Frequency loss of the sequence's labels, in nats, at least 0.
        epsilon: ||X^H - Pi X^H||_F or an upper bound: distance of the LM head's input from its repeated mean row.
        lm_head_norm: Spectral norm of the LM head's matrix.
        n: Sequence length, at least 1.

    Raises:
        ValueError: if an argument is outside its domain.
    """
    slack = 2 / np.sqrt(whole("n", n, 1)) * within("lm_head_norm", lm_head_norm, 0) * within("epsilon", epsilon, 0)
    return within("freq_loss", freq_loss, 0) - slack
