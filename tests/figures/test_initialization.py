"""Figures of probes and theory."""

import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import matplotlib as mpl
import numpy as np
import pytest
import xarray as xr
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from PIL import Image

from collapse.config.figures import FiguresConfig
from collapse.errors import CollapseError
from collapse.figures.command import draw_figure
from collapse.figures.family import load_family
from collapse.figures.style import COLUMN, INK, save, theme

Make = Callable[..., xr.Dataset]
Publish = Callable[[xr.Dataset, Path], Path]

STYLE = FiguresConfig(dpi=60)
DATASETS = {
    "increments": "increments",
    "deescalation": "increments",
    "depth_recursion": "increments",
    "row_norms": "increments",
    "attention_moment": "attention",
    "prefix_average": "attention",
    "approximation_split": "approximations",
    "swiglu_moment": "swiglu_moment",
    "concentration": "concentration",
}
VARIANTS: dict[str, list[dict[str, Any]]] = {
    "increments": [
        {},
        {"inputs": ["gaussian"], "placements": ["pre", "post"], "variance_scales": [2.0], "seeds": 1},
        {"variance_scales": [4.0, 1.0, 2.0, 3.0, 0.5], "deescalations": [1.0, 0.5], "sweep": "axes"},
        {"layers": 1, "placements": ["pre"]},
        {"layers": 1, "seeds": 1, "placements": ["post"], "variance_scales": [1.0], "deescalations": [0.25]},
    ],
    "attention": [{}, {"seeds": 1, "blocks": 1}, {"layers": 1}, {"layers": 1, "seeds": 1, "blocks": 1}],
    "approximations": [
        {},
        {"placements": ["pre"], "variance_scales": [1.0], "seeds": 1, "layers": [1]},
        {"placements": ["post"], "variance_scales": [1.0, 2.0, 3.0, 4.0, 5.0]},
    ],
    "swiglu_moment": [{}, {"variances": [0.41]}, {"variances": [0.1, 0.2, 0.3, 0.4, 0.5]}],
    "concentration": [{}, {"widths": [64]}, {"widths": [32, 1024]}],
}
CASES = [(family, options) for family, name in DATASETS.items() for options in VARIANTS[name]]


@pytest.fixture(autouse=True)
def _strict() -> Iterator[None]:
    """A figure that warns is not finished."""
    with warnings.catch_warnings(), theme(STYLE):
        warnings.simplefilter("error")
        yield


def draw(family: str, data: xr.Dataset) -> Figure:
    return load_family(family).draw(STYLE, data=data)


def curves(ax: mpl.axes.Axes, dashed: bool = False) -> list[mpl.lines.Line2D]:
    """Curves of two and more points, solid or dashed; no lines over the whole width, no error bars."""
    return [
        line
        for line in ax.get_lines()
        if len(line.get_xdata()) > 2 and line.get_linestyle() == ("--" if dashed else "-")
    ]


def texts(figure: Figure) -> list[str]:
    return [text.get_text() for legend in figure.legends for text in legend.get_texts()]


@pytest.mark.parametrize(("family", "options"), CASES)
def test_whatever_a_config_leaves_out(make_probe: Make, family: str, options: dict[str, Any]) -> None:
    figure = draw(family, make_probe(DATASETS[family], **options))
    figure.draw_without_rendering()
    for ax in figure.axes:
        assert any(np.isfinite(np.asarray(line.get_ydata(), float)).any() for line in ax.get_lines())
        assert "not measured" not in [text.get_text() for text in ax.texts]


@pytest.mark.parametrize("family", DATASETS)
def test_nothing_measured_is_said(make_probe: Make, family: str) -> None:
    data = make_probe(DATASETS[family])
    figure = draw(family, data.assign({name: values * np.nan for name, values in data.items()}))
    figure.draw_without_rendering()
    assert all(any(text.get_text() for text in ax.texts) for ax in figure.axes)


def test_equal_data_give_equal_bytes(make_probe: Make, tmp_path: Path) -> None:
    for name in ("first", "second"):
        save(draw("swiglu_moment", make_probe("swiglu_moment")), tmp_path / f"{name}.png", "title", STYLE)
    for suffix in (".png", ".pdf"):
        first, second = ((tmp_path / f"{name}{suffix}").read_bytes() for name in ("first", "second"))
        assert first == second
    with Image.open(tmp_path / "first.png") as picture:
        assert picture.width == pytest.approx(60 * COLUMN, abs=1)


def test_increments_beside_their_theorems(make_probe: Make) -> None:
    data = make_probe("increments")
    figure = draw("increments", data)
    assert [ax.get_title(loc="left") for ax in figure.axes] == [
        "(a) Post-Norm, attention", "(b) Post-Norm, FFN", "(c) Pre-Norm, attention", "(d) Pre-Norm, FFN",
    ]  # fmt: skip
    shown = data.sel(input="tokens", placement="pre", deescalation=0, sublayer="attention").mean("seed")
    for ax in figure.axes:
        assert len(curves(ax)) == len(curves(ax, dashed=True)) == len(ax.collections) == 3
    for line, dashed, scale in zip(
        curves(figure.axes[2]), curves(figure.axes[2], dashed=True), data["variance_scale"].values, strict=True
    ):
        np.testing.assert_allclose(line.get_ydata(), shown["increment"].sel(variance_scale=scale))
        np.testing.assert_allclose(dashed.get_ydata(), shown["increment_predicted"].sel(variance_scale=scale))
        assert line.get_color() == dashed.get_color()
    assert texts(figure) == ["×1", "×2", "×4", "measured", "theorem"]
    assert figure.get_suptitle() == "Text; 6 layers, d 32, n 64; mean ± 1 s.d. over 3 seeds"


def test_band_is_one_standard_deviation_over_seeds(make_probe: Make) -> None:
    data = make_probe("increments", seeds=4)
    figure = draw("increments", data)
    spread = data["increment"].sel(
        input="tokens", placement="post", variance_scale=1, deescalation=0, sublayer="attention", layer=1
    )
    (outline,) = figure.axes[0].collections[0].get_paths()
    ends = outline.vertices[outline.vertices[:, 0] == 1, 1]
    mean, deviation = float(spread.mean()), float(spread.std(ddof=1))
    np.testing.assert_allclose([ends.min(), ends.max()], [mean - deviation, mean + deviation])


def test_one_seed_has_no_band(make_probe: Make) -> None:
    figure = draw("increments", make_probe("increments", seeds=1))
    assert not any(ax.collections for ax in figure.axes)
    assert figure.get_suptitle().endswith("one seed")


def test_what_is_shown_in_place_of_text_and_a_0_is_said(make_probe: Make) -> None:
    data = make_probe("increments", inputs=["gaussian"], deescalations=[0.5, 0.25], sweep="axes")
    figure = draw("increments", data)
    assert figure.get_suptitle().startswith("Gaussian rows; ")
    assert "P − 0.5 $C_n$ for P" in figure.get_suptitle()
    assert len(curves(figure.axes[0])) == 3


def test_deescalation_from_the_input_on(make_probe: Make) -> None:
    data = make_probe("increments")
    figure = draw("deescalation", data)
    shown = data.sel(input="tokens", placement="post", variance_scale=1).mean("seed")
    lines = curves(figure.axes[0])
    assert texts(figure) == ["0", "0.5", "1"]
    for line, a in zip(lines, data["deescalation"].values, strict=True):
        one = shown.sel(deescalation=a)
        np.testing.assert_array_equal(line.get_xdata(), range(7))
        np.testing.assert_allclose(line.get_ydata()[1:], one["tsim_y"].sel(sublayer="ffn"))
        assert line.get_ydata()[0] == pytest.approx(float(one["tsim_x"].sel(sublayer="attention", layer=1)))
    assert figure.axes[1].get_title(loc="left") == "(b) Pre-Norm, variance ×1"


def test_deescalation_at_the_variance_at_which_it_was_measured(make_probe: Make) -> None:
    figure = draw("deescalation", make_probe("increments", variance_scales=[2.0, 1.0], sweep="axes"))
    assert len(curves(figure.axes[0])) == 3
    assert figure.axes[0].get_title(loc="left") == "(a) Post-Norm, variance ×2"


def test_recursion_beside_the_measurement(make_probe: Make) -> None:
    data = make_probe("increments")
    figure = draw("depth_recursion", data)
    shown = data.sel(input="tokens", placement="pre", deescalation=0, sublayer="ffn", variance_scale=2).mean("seed")
    right = figure.axes[1]
    np.testing.assert_allclose(curves(right)[1].get_ydata()[1:], shown["tsim_y"])
    np.testing.assert_allclose(curves(right, dashed=True)[1].get_ydata()[1:], shown["tsim_y_recursion"])


def test_row_norms_beside_their_lemmas(make_probe: Make) -> None:
    figure = draw("row_norms", make_probe("increments", layers=7))
    attention, ffn = figure.axes
    assert texts(figure) == ["1", "4", "7", "measured", "lemma"]
    assert attention.get_xscale() == "log"
    falling, flat = (np.diff(curves(ax, dashed=True)[0].get_ydata()) for ax in (attention, ffn))
    assert (falling < 0).all()
    np.testing.assert_allclose(flat, 0, atol=1e-12)
    assert curves(ffn, dashed=True)[0].get_ydata()[0] == pytest.approx(1 + 0.0110858, abs=1e-6)


def test_lemmas_on_row_norms_are_for_post_norm(make_probe: Make) -> None:
    figure = draw("row_norms", make_probe("increments", placements=["pre"]))
    assert "the lemmas are for Post-Norm" in figure.get_suptitle()
    assert "lemma" not in texts(figure)
    assert not any(np.isfinite(line.get_ydata()).any() for ax in figure.axes for line in curves(ax, dashed=True))


def test_moment_and_the_difference_in_standard_errors(make_probe: Make) -> None:
    data = make_probe("swiglu_moment")
    moment, difference = (figure := draw("swiglu_moment", data)).axes
    assert moment.get_legend().get_texts()[0].get_text() == r"$\sigma^2 = 1/3$: 0.006 to 0.100"
    expected = ((data["moment_sampled"] - data["moment"]) / data["moment_sampled_se"]).values
    for line, values in zip(curves(difference), expected, strict=True):
        np.testing.assert_allclose(line.get_ydata(), values)
    exact = data.assign(moment_sampled=data["moment"], moment_sampled_se=0 * data["moment"])
    assert "no standard errors" in [text.get_text() for text in draw("swiglu_moment", exact).axes[1].texts]
    assert figure.axes[1].get_xlabel()


def test_attention_in_percent(make_probe: Make) -> None:
    data = make_probe("attention")
    for ax, name in zip(draw("attention_moment", data).axes, ("delta_attn", "delta_proj"), strict=True):
        np.testing.assert_allclose(curves(ax)[0].get_ydata(), 100 * data[name])
        assert "%" in ax.get_ylabel()
        assert ax.get_ylim()[0] == 0
    figure = draw("prefix_average", data)
    assert len(curves(figure.axes[0])) == data.sizes["seed"] + 1
    assert texts(figure) == ["each initialization alone", "mean of 8 and the heads", "without sampling noise"]
    assert "± 2 s.e. from leaving out each of 4 blocks" in figure.get_suptitle()
    alone = draw("prefix_average", make_probe("attention", seeds=1, blocks=1))
    assert "one block, so no standard errors" in alone.get_suptitle()
    assert texts(alone) == ["mean of the heads"]


def test_the_split_names_its_largest_gap(make_probe: Make) -> None:
    data = make_probe("approximations", seeds=4)
    figure = draw("approximation_split", data)
    assert len(figure.axes) == 6
    shares = [re.fullmatch(r"equal correlation: 7\d ± (\d+) %", ax.texts[0].get_text()) for ax in figure.axes]
    assert all(share and int(share[1]) > 0 for share in shares)
    assert not [ax.texts for ax in draw("approximation_split", make_probe("approximations", seeds=2)).axes if ax.texts]
    total = next(line for line in curves(figure.axes[0]) if line.get_linewidth() > 2)
    first = data.isel(placement=0, variance_scale=0).mean("seed")
    gaps = first["gap_prefix"] + first["gap_ratio"] + first["gap_equal"]
    np.testing.assert_allclose(total.get_ydata(), gaps)
    looks = {(to_hex(line.get_color()), line.get_marker()) for line in curves(figure.axes[0])}
    assert len(looks) == 4


def test_concentration_below_the_bound_of_its_legend(make_probe: Make) -> None:
    data = make_probe("concentration")
    left, right = draw("concentration", data).axes
    guide = next(line for line in left.get_lines() if line.get_label() == r"slope $-1/2$")
    slope = np.diff(np.log(guide.get_ydata())) / np.diff(np.log(guide.get_xdata()))
    np.testing.assert_allclose(slope, -0.5)
    bound = next(line for line in right.get_lines() if line.get_color() == INK)
    assert f"$c$ = {float(data['exponent'].min()):.2g}" in bound.get_label()
    rate, height = bound.get_xdata(), bound.get_ydata()
    for line in right.get_lines():
        if line is not bound and len(line.get_xdata()):
            inside = line.get_xdata() < rate[np.isfinite(height)][-1]
            assert (line.get_ydata()[inside] <= np.interp(line.get_xdata()[inside], rate, height) * 1.01).all()


def test_draw_figure(make_probe: Make, publish_probe: Publish, tmp_path: Path) -> None:
    data = publish_probe(make_probe("increments"), tmp_path / "probes" / "increments.zarr")
    out = tmp_path / "figures" / "fig01_increments.png"
    draw_figure("increments", {"data": data}, STYLE, 1, out)
    with Image.open(out) as picture:
        assert picture.info["Title"] == "Figure 1: One-step increments of token similarity at initialization"
    assert out.with_suffix(".pdf").is_file()
    data.with_suffix(".json").unlink()
    out = tmp_path / "row_norms.png"
    with pytest.raises(CollapseError, match="missing or unfinished"):
        draw_figure("row_norms", {"data": data}, STYLE, None, out)
    assert not out.exists()


@pytest.mark.parametrize("count", [1, 2, 3])
def test_concentration_guide_lies_above_every_width_whatever_their_number(make_probe: Make, count: int) -> None:
    """Also where there are as many realizations as there are not widths."""
    data = make_probe("concentration").isel(width=slice(count))
    left, _ = draw("concentration", data).axes
    (guide,) = [line for line in left.get_lines() if "slope" in str(line.get_label())]
    assert (guide.get_ydata() > data["deviation"].max(("branch", "quantity", "realization")).values).all()
