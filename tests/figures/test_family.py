"""A figure family is one module, and its rows in the gallery."""

import inspect
from importlib import import_module
from pathlib import Path

import pytest

from collapse import figures
from collapse.figures.family import Family, load_family
from collapse.pipeline.gallery import GALLERY, Row

FAMILIES = sorted({row.family for row in GALLERY})


@pytest.mark.parametrize("row", GALLERY, ids=lambda row: f"{row.number}-{row.family}")
def test_draw_takes_what_the_row_shows(row: Row) -> None:
    style, *inputs = inspect.signature(load_family(row.family).draw).parameters.values()
    assert style.name == "style"
    assert {parameter.name for parameter in inputs} == set(row.shows)
    assert all(parameter.kind is parameter.KEYWORD_ONLY for parameter in inputs)


def test_every_family_is_in_the_gallery() -> None:
    modules = [import_module(f"{figures.__name__}.{path.stem}") for path in Path(figures.__path__[0]).glob("*.py")]
    assert sorted(module.__name__.rpartition(".")[2] for module in modules if hasattr(module, "FAMILY")) == FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
def test_every_family_says_what_it_shows(name: str) -> None:
    family = load_family(name)
    assert family.title and family.category
    assert family.caption.endswith(".") and "  " not in family.caption


@pytest.mark.parametrize("row", GALLERY, ids=lambda row: f"{row.number}-{row.family}")
def test_captions_of_the_paper_s_figures_say_what_the_paper_shows(row: Row) -> None:
    family = load_family(row.family)
    assert ("In the paper" in family.full_caption(row.number)) == (row.number is not None)
    assert family.heading(row.number).startswith("Figure ") == (row.number is not None)


def test_the_paper_s_run_follows_from_the_number() -> None:
    contraction: Family = load_family("contraction")
    assert "In the paper (lr 8e-4, another seed, transition at step 1979): √d/‖y‖" in contraction.full_caption(11)
    assert "In the paper (lr 1.8e-3): gradients of early" in load_family("gradient_norms").full_caption(20)
    assert contraction.full_caption(22).endswith("without collapse): token similarity stays away from 1.")
    assert "In the paper: both errors" in load_family("attention_moment").full_caption(8)
