"""Standard errors of what is no mean, from leaving out one block of the sample at a time."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def jackknife_error(whole: ArrayLike, without: ArrayLike, sizes: ArrayLike) -> NDArray[np.float64]:
    """Standard error of an estimate by the jackknife that deletes blocks, which may differ in size.

    For B blocks of equal size the square is (B - 1)/B times the sum of squared deviations of the estimates without a
    block from their mean; in general it is that of Busing, Meijer and van der Leeden (1999), "Delete-m jackknife for
    unequal m", equation 8.

    Args:
        whole: The estimate from everything, (...).
        without: The estimates without block b, (B, ...).
        sizes: Sizes of the blocks, (B,).

    Returns:
        (...); NaN where there is one block only.
    """
    everything, left, counts = (np.asarray(values, np.float64) for values in (whole, without, sizes))
    blocks = len(counts)
    if blocks < 2:
        return np.full(everything.shape, np.nan)
    ratio = (counts.sum() / counts).reshape(-1, *[1] * everything.ndim)
    pseudo = ratio * everything - (ratio - 1) * left
    estimate = blocks * everything - ((1 - 1 / ratio) * left).sum(0)
    variance: NDArray[np.float64] = ((pseudo - estimate) ** 2 / (ratio - 1)).mean(0)
    return np.sqrt(variance)
