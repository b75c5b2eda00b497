"""Claims about constructed collapsed states and expectations: one a statement of `collapse.checks.statements`."""

from functools import partial

import xarray as xr

from collapse.checks.statements import SAMPLED, STATEMENTS, Comparison, Statement, excess
from collapse.claims.judging import Claim, Measured, Range, select


def violation(data: xr.Dataset, name: str) -> Measured:
    """By how much each trial violates a statement, in units of the comparison's scale."""
    found = select(data, statement=name)
    numbers = Comparison(*(found[part].values for part in Comparison._fields))
    return Measured(excess(STATEMENTS[name].relation, numbers))


def _quantity(statement: Statement) -> str:
    if statement.relation == "equals":
        unit = "standard errors" if statement.tolerance == SAMPLED else "units of its natural size"
        return f"distance of measured and stated, in {unit}, largest over trials"
    side = "above" if statement.relation == "at most" else "below"
    return f"how far measured is {side} stated, in units of scale, largest over trials; negative is slack"


CLAIMS = tuple(
    Claim(
        name,
        statement.about,
        statement.source,
        "",
        _quantity(statement),
        Range(high=statement.tolerance, closed=True),
        ("collapsed_states",),
        partial(violation, name=name),
    )
    for name, statement in STATEMENTS.items()
)
"""Claims that the constructed states decide."""
