"""What a figure family is. Each family is one module of this package, which defines `draw` and `FAMILY`."""

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module

from matplotlib.figure import Figure

OVERVIEW = "Overview"
"""Category of the figures at the top of the report."""
AT_INITIALIZATION = "At initialization"
RUNS = "Runs"
EVERY_RUN = "Every run over depth"
"""Category of the families with one figure per run; the report shows them side by side under one caption."""

_PAPER_RUNS = {
    range(3, 6): "lr 8e-4, transition at step 2644",
    range(10, 12): "lr 8e-4, another seed, transition at step 1979",
    range(12, 15): "lr 1.2e-3",
    range(15, 18): "lr 1.5e-3",
    range(18, 21): "lr 1.8e-3",
    range(21, 23): "lr 6e-4, 40,000 steps without collapse",
}
"""The run that the paper shows in its figures of these numbers."""
_WITHOUT_COLLAPSE = range(21, 23)


@dataclass(frozen=True)
class Family:
    """Figures that one function draws from different runs or datasets."""

    title: str
    """Title in the metadata of the files."""
    category: str
    """Section of the report."""
    caption: str
    """What its figures show."""
    draw: Callable[..., Figure]
    """`draw(style, *, <inputs>)`; an input is a dataset or a sequence of `Shown`, named as in the gallery."""
    in_paper: str | None = None
    """What the paper's figures of the family show; None if the paper has none."""

    def heading(self, number: int | None) -> str:
        """Title of the figure with this number in the paper."""
        return self.title if number is None else f"Figure {number}: {self.title}"

    def full_caption(self, number: int | None) -> str:
        """What a figure shows and, if it has a number, what the paper's figure of that number shows."""
        if number is None or self.in_paper is None:
            return self.caption
        run = next((f" ({about})" for numbers, about in _PAPER_RUNS.items() if number in numbers), "")
        shown = "token similarity stays away from 1" if number in _WITHOUT_COLLAPSE else self.in_paper
        return f"{self.caption} In the paper{run}: {shown}."


def load_family(name: str) -> Family:
    """The family that a module of this package defines."""
    family: Family = import_module(f"collapse.figures.{name}").FAMILY
    return family
