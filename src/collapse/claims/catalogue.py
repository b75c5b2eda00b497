"""Every claim, and the datasets that decide them."""

from collapse.claims import attention, checks, initialization, row_norms, theory
from collapse.claims.judging import Claim

CLAIMS: tuple[Claim, ...] = (
    *initialization.CLAIMS,
    *row_norms.CLAIMS,
    *theory.CLAIMS,
    *attention.CLAIMS,
    *checks.CLAIMS,
)
"""Every claim, in the order of the table."""
DATASETS = tuple(dict.fromkeys(name for claim in CLAIMS for name in claim.evidence))
"""Names of the datasets that the claims read."""
