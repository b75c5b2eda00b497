"""Standard errors of estimates that are not means, by leaving out one block of the sample at a time."""

import numpy as np
from numpy.typing import ArrayLike, NDArray


def jackknife_error(whole: ArrayLike, without: ArrayLike, sizes: ArrayLike) -> NDArray[np.float64]:
    """Standard error of an estimate by the delete-block jackknife; blocks may differ in size.

    For B blocks of equal size, the squared error is (B - 1)/B times the sum of squared deviations of the estimates
    without one block from their mean. The general case is equation 8 of Busing, Meijer and van der Leeden (1999),
    "Delete-m jackknife for unequal m".

    Args:
        whole: The estimate from the whole sample, (...).
        without: The estimates without each block, (B, ...).
        sizes: Sizes of the blocks, (B,).

    Returns:
        The standard error, (...); NaN if there is only one block.
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
