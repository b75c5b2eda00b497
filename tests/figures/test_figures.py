import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import get_args

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import Colormap, to_hex
from matplotlib.figure import Figure
from PIL import Image

from collapse.analysis.summary import row
from collapse.config.analysis import AnalysisConfig
from collapse.config.figures import FiguresConfig, Palette
from collapse.errors import CollapseError
from collapse.figures import frequency_loss, overview
from collapse.figures.command import draw_figure
from collapse.figures.family import load_family
from collapse.figures.gradient_norms import steps_shown
from collapse.figures.panels import masked, smooth, window
from collapse.figures.runs import Shown, show
from collapse.figures.style import FULL, INK, colour_map, ordered_colours, save, theme

Make = Callable[..., xr.Dataset]
Publish = Callable[[xr.Dataset, Path], Path]

STYLE = FiguresConfig(dpi=60)
OF_ONE_RUN = ("gradient_contribution", "contraction", "gradient_norms", "tsim_heatmap")


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """A figure that warns is not finished."""
    with warnings.catch_warnings(), theme(STYLE):
        warnings.simplefilter("error")
        yield


def shown(run: xr.Dataset) -> Shown:
    return Shown(run, row(run, AnalysisConfig()))


def draw(family: str, run: xr.Dataset) -> Figure:
    return load_family(family).draw(STYLE, run=[shown(run)])


def nothing_measured(run: xr.Dataset) -> xr.Dataset:
    return run.map(lambda values: values * np.nan, keep_attrs=True)


def lines(ax: mpl.axes.Axes) -> dict[str, mpl.lines.Line2D]:
    return {str(line.get_label()): line for line in ax.get_lines()}


@pytest.mark.parametrize("family", OF_ONE_RUN)
@pytest.mark.parametrize("kind", ["collapsing", "early", "stable"])
@pytest.mark.parametrize(("steps", "layers"), [(300, 12), (12, 2), (1, 1)])
def test_every_kind_of_run(make_run: Make, family: str, kind: str, steps: int, layers: int) -> None:
    draw(family, make_run(kind, steps=steps, layers=layers)).draw_without_rendering()


SPARSE = [*range(0, 220, 25), *range(220, 235), 299]


@pytest.mark.parametrize("family", OF_ONE_RUN)
def test_steps_that_were_not_recorded(make_run: Make, family: str) -> None:
    figure = draw(family, make_run("collapsing", steps=300, layers=3).isel(step=SPARSE))
    figure.draw_without_rendering()
    for ax in figure.axes:
        if ax.get_xlabel() == "optimizer step":
            assert 0 <= ax.get_xlim()[0] < ax.get_xlim()[1] <= 299


def test_what_is_drawn_of_a_sparse_run_stays_at_its_steps(make_run: Make) -> None:
    run = make_run("collapsing", steps=300, layers=3).isel(step=SPARSE)
    steps = run["step"].values
    np.testing.assert_allclose(smooth(steps, steps)[:8], steps[:8])
    assert smooth(steps, steps)[15] == pytest.approx(steps[11:20].mean())
    row = {"collapsed": True, "transition_step": 220.0, "transition_length": 79.0}
    assert list(steps_shown(steps, row)) == [220, 228, 234, 299]
    image = draw("tsim_heatmap", run).axes[0].get_images()[0].get_array()
    assert image.shape == (6, 300)
    assert (image[:, 30] == image[:, 25]).all() and (image[:, 45] == image[:, 50]).all()


@pytest.mark.parametrize("family", OF_ONE_RUN)
def test_nothing_measured(make_run: Make, family: str) -> None:
    draw(family, nothing_measured(make_run(steps=12, layers=2))).draw_without_rendering()


@pytest.mark.parametrize("family", OF_ONE_RUN)
def test_zero_gradients(make_run: Make, tmp_path: Path, family: str) -> None:
    """A fully collapsed float32 run has gradients of exactly 0, and quotients that are NaN."""
    run = make_run(steps=40, layers=3)
    for name in ("grad_x", "grad_y", "param_grad"):
        run[name][20:] = 0
    for name in ("alpha", "contraction", "transport"):
        run[name][20:] = np.nan
    save(draw(family, run), tmp_path / "figure.png", "title", STYLE)
    with Image.open(tmp_path / "figure.png") as picture:
        assert picture.width > 150
    assert (tmp_path / "figure.pdf").read_bytes().startswith(b"%PDF")


def test_equal_data_give_equal_bytes(make_run: Make, tmp_path: Path) -> None:
    run = make_run(steps=60, layers=3)
    for name in ("first", "second"):
        save(draw("gradient_norms", run), tmp_path / f"{name}.png", "Figure 5", STYLE)
    for suffix in (".png", ".pdf"):
        first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("first", "second"))
        assert first == second
        assert not any(word in first for word in (b"CreationDate", b"Software", b"tIME"))


def test_layers_and_the_transition_are_marked(make_run: Make) -> None:
    run = make_run(steps=300, layers=12)
    figure = draw("gradient_contribution", run)
    loss, tsim, attention, ffn = figure.axes
    assert [label for label in lines(attention) if not label.startswith("_")] == ["1", "5", "10", "12"]
    step = shown(run).row["transition_step"]
    for ax in (loss, tsim, attention, ffn):
        assert any(list(line.get_xdata()) == [step, step] for line in ax.get_lines())
        assert ax.get_ylabel()
    assert f"collapses between steps {step:.0f}" in figure.get_suptitle()


def test_no_transition_no_mark(make_run: Make) -> None:
    run = make_run("stable", steps=300, layers=12)
    figure = draw("contraction", run)
    assert not any(ax.patches for ax in figure.axes)
    assert figure.axes[0].get_xlim() == (0, 299)
    assert "does not collapse" in figure.get_suptitle()


def test_shades_before_and_after(make_run: Make) -> None:
    figure = draw("contraction", make_run(steps=300, layers=12))
    assert all(len(ax.patches) == 2 for ax in figure.axes)


def test_the_window_covers_the_transition_and_so_many_steps_beside_it(make_run: Make) -> None:
    run, about = shown(make_run(steps=400, layers=2))
    steps = window(run, about, FiguresConfig(window=20))["step"].values
    assert steps[0] == about["transition_step"] - 20
    assert steps[-1] == about["transition_step"] + about["transition_length"] + 20


def test_quotients_of_vanishing_gradients_are_masked_in_the_plot_only(make_run: Make) -> None:
    run = make_run("stable", steps=30, layers=2)
    run["grad_x"][:], run["grad_y"][:] = 1e-3, 1e-3
    run["grad_y"][5, 0, 0] = 1e-11
    run["grad_x"][6, 1, 1] = 1e-11
    plotted = masked(run, "alpha", STYLE)
    assert np.isnan(plotted[5, 0, 0])
    assert np.isnan(plotted[6, 1, 1])
    assert np.isfinite(plotted).sum() == plotted.size - 2
    assert np.isfinite(run["alpha"]).all()


@pytest.mark.parametrize(("length", "expected"), [(4, 11), (10, 11), (100, 11)])
def test_eleven_steps_of_the_transition(length: int, expected: int) -> None:
    about = {"collapsed": True, "transition_step": 50.0, "transition_length": float(length)}
    steps = steps_shown(np.arange(200), about)
    assert len(steps) == expected
    assert (steps[0], steps[-1]) == (50, 50 + max(length, 10))


def test_fewer_steps_where_there_are_fewer() -> None:
    assert list(steps_shown(np.arange(3), {"collapsed": False})) == [0, 1, 2]
    about = {"collapsed": True, "transition_step": 196.0, "transition_length": 2.0}
    assert list(steps_shown(np.arange(200), about)) == [196, 197, 198, 199]


def test_frequency_loss_of_each_scope(make_run: Make) -> None:
    runs = [make_run("early", steps=40, layers=2, scope=scope, warmup_steps=0) for scope in ("stream", "sequence")]
    runs[1]["freq_loss"] = runs[1]["freq_loss"] - 2
    warm = [make_run(steps=40, layers=2, lr=lr) for lr in (2e-2, 1e-2)]
    left, right = frequency_loss.draw(STYLE, no_warmup=list(map(shown, runs)), warmup=list(map(shown, warm))).axes
    levels = {line.get_ydata()[0] for line in left.get_lines() if line.get_linestyle() == ":" and len(line.get_xdata())}
    assert levels == {float(run["freq_loss"]) for run in runs}
    texts = [text.get_text() for text in right.get_legend().get_texts()]
    assert texts == ["lr 0.01", "lr 0.02", "frequency loss"]


def test_equal_curves_take_turns_over_one_frequency_loss(make_run: Make) -> None:
    warm = [shown(make_run(steps=60, layers=2, lr=lr)) for lr in (1e-2, 2e-2, 3e-2)]
    right = frequency_loss.draw(STYLE, warmup=warm).axes[1]
    (reference,) = [line for line in right.get_lines() if line.get_linestyle() == ":" and len(line.get_xdata())]
    assert reference.get_color() == INK
    curves = [line for label, line in lines(right).items() if label.startswith("lr ")]
    assert len({line.get_marker() for line in curves}) == len({to_hex(line.get_color()) for line in curves}) == 3
    marked = [set(line.get_xdata()) for line in curves]
    assert all(marked) and len(set.union(*marked)) == sum(map(len, marked))


def test_frequency_loss_without_runs_on_one_side(make_run: Make) -> None:
    run = shown(make_run(steps=12, layers=2))
    for side in ("no_warmup", "warmup"):
        frequency_loss.draw(STYLE, **{side: [run]}).draw_without_rendering()


def test_overview_counts_what_happened(make_run: Make) -> None:
    runs = [
        make_run("collapsing", layers=3),
        make_run("stable", layers=3, lr=1e-3),
        make_run("stable", layers=3, placement="pre"),
        make_run("early", layers=3, scope="batch", warmup_steps=0),
    ]
    figure = overview.draw(STYLE, runs=list(map(shown, runs)), collapsing=[shown(runs[0])])
    assert figure.get_suptitle().startswith("2 of 4 runs collapse")
    texts = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert texts == [
        "Post-Norm, collapsed (1)",
        "Post-Norm, not collapsed (1)",
        "Pre-Norm, not collapsed (1)",
        "the run of (c, d)",
        "frequency loss",
    ]
    curves = [line for line in figure.axes[1].get_lines() if len(line.get_xdata())]
    thickest = max(curves, key=lambda line: line.get_linewidth())
    assert thickest.get_color() == INK
    assert all(line.get_zorder() < thickest.get_zorder() for line in curves if line is not thickest)


@pytest.mark.parametrize("steps", [1, 12])
def test_overview_of_short_runs(make_run: Make, steps: int) -> None:
    runs = [shown(make_run(steps=steps, layers=2)), shown(nothing_measured(make_run(steps=steps, layers=2)))]
    for collapsing in runs:
        overview.draw(STYLE, runs=runs, collapsing=[collapsing]).draw_without_rendering()


@pytest.fixture
def published(make_run: Make, publish_run: Publish, tmp_path: Path) -> Path:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return publish_run(make_run(steps=40, layers=3), tmp_path)


def test_draw_figure(published: Path, tmp_path: Path) -> None:
    run = show(published, AnalysisConfig())
    for family, inputs, number in (
        ("contraction", {"run": [run]}, 4),
        ("overview", {"runs": [run], "collapsing": [run]}, None),
        ("frequency_loss", {"no_warmup": [], "warmup": [run]}, 6),
    ):
        out = tmp_path / "figures" / f"{family}.png"
        draw_figure(family, inputs, STYLE, number, out)
        assert out.with_suffix(".pdf").is_file()
        with Image.open(out) as picture:
            assert picture.width == pytest.approx(60 * FULL, abs=1)
            assert picture.info["Title"] == (f"Figure {number}: " if number else "") + load_family(family).title


@pytest.mark.parametrize("palette", get_args(Palette))
def test_palettes_are_continuous(palette: Palette) -> None:
    style = FiguresConfig(palette=palette)
    assert isinstance(colour_map(style), Colormap)
    assert len({tuple(colour) for colour in ordered_colours(style, 12)}) == 12


def test_a_missing_run_is_a_sentence(tmp_path: Path) -> None:
    folder = tmp_path / "nowhere"
    with pytest.raises(CollapseError, match=re.escape(f"{folder}: no run here")):
        show(folder, AnalysisConfig())
