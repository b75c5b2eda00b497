import base64
import json
import re
import shutil
from collections.abc import Callable
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from collapse.analysis.summary import table
from collapse.config.root import Config, parse
from collapse.errors import CollapseError
from collapse.figures.family import load_family
from collapse.pipeline.gallery import figures
from collapse.report.origins import origins
from collapse.report.page import findings, render, write_report
from collapse.store.dataset import publish_dataset

Make = Callable[..., xr.Dataset]
Publish = Callable[[xr.Dataset, Path], Path]

PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)
RAW: dict[str, Any] = {
    "name": "made-up",
    "corpus": {"source": "sample"},
    "tokens": {"tokenizer": {"kind": "train", "vocab_size": 512}},
    "model": {"layers": 3, "width": 16, "heads": 2, "ffn_width": 32, "sequence_length": 16, "vocab_size": 512},
    "training": {"steps": 400, "horizon": 5000, "warmup_steps": 4, "lr": 1e-2, "batch_size": 4},
    "execution": {"micro_batch_size": 2},
    "grid": {"extra": [{"lr": 1e-3}, {"lr": 1e-2}, {"lr": 1e-2, "placement": "pre"}]},
}

CLAIMS = """id,statement,source,figure,quantity,value,threshold,verdict,evidence
3.2,"Attention adds, in <i>every</i> layer",Theorem 3.2,fig01_increments,smallest,0.00123456,> 0,holds,increments
9-first,"||E[P] - C_n|| is small & falls",Appendix F.2,9,"error in layer 1, %",2.51,"2.4 to 2.9",fails,attention
split,Equal correlation causes the mismatch,open,approximation_split,share,0.8,>= 0.5,fails,approximations
C.7,<script>alert(1)</script>,Lemma C.7,,spread,,> 0,undecided,
"""


@pytest.fixture
def config() -> Config:
    return parse(RAW)


@pytest.fixture(scope="module")
def finished(make_run: Make, publish_run: Publish, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Finished runs, a summary, claims, manifests of datasets, and a pixel for every figure."""
    config, folder = parse(RAW), tmp_path_factory.mktemp("finished")
    runs = [
        make_run("stable", layers=3, lr=1e-3),
        make_run("collapsing", layers=3),
        make_run("stable", layers=3, placement="pre"),
    ]
    runs[2].attrs["ended"] = "step 7: the loss is <b>not</b> finite"
    assert [run.attrs["run_id"] for run in runs] == list(config.runs)
    table([publish_run(run, folder) for run in runs], config.analysis).to_csv(folder / "summary.csv")
    (folder / "claims.csv").write_text(CLAIMS, encoding="utf-8")
    for name in {figure.data for figure in figures(config).values() if figure.data}:
        manifest = folder / f"{name}.json"
        manifest.parent.mkdir(exist_ok=True)
        manifest.write_text(json.dumps({"digest": "0" * 64, "provenance": {"code": "1" * 16}}))
    (folder / "figures").mkdir()
    for name in figures(config):
        (folder / "figures" / f"{name}.png").write_bytes(PIXEL)
    return folder


@pytest.fixture
def results(finished: Path, tmp_path: Path) -> Path:
    """A copy of the finished results."""
    return Path(shutil.copytree(finished, tmp_path / "results"))


def report(results: Path) -> str:
    """The page that `write_report` writes."""
    out = results / "report.html"
    write_report(parse(RAW), results, results / "summary.csv", results / "claims.csv", out)
    return out.read_text(encoding="utf-8")


class Page(HTMLParser):
    """Tags that are left open, references, and the text of a page."""

    def __init__(self, html: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.references: list[str] = []
        self.ids: list[str] = []
        self.text = ""
        self.feed(html)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in {"meta", "img", "br"}:
            self.open.append(tag)
        self.references += [value or "" for key, value in attrs if key in {"src", "href"}]
        self.ids += [value or "" for key, value in attrs if key == "id"]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


def test_a_whole_self_contained_page(results: Path, config: Config) -> None:
    html = report(results)
    page = Page(html)
    assert page.open == []
    pictures = [reference for reference in page.references if not reference.startswith("#")]
    assert len(pictures) == len(figures(config))
    assert all(base64.b64decode(p.removeprefix("data:image/png;base64,")) == PIXEL for p in pictures)
    assert {reference[1:] for reference in page.references if reference.startswith("#")} <= set(page.ids)
    assert not re.search(r"https?:|@import|url\(|<script", html)
    for run_id in config.runs:
        assert run_id in page.text
    for needed in ("Figure 3.", "Figure 22.", "warmup_steps: 4", "0" * 40, "versions: torch", "2.13.0"):
        assert needed in page.text
    assert "<b>not</b> finite" in page.text  # shown as text, so escaped


def test_equal_results_give_equal_pages(results: Path) -> None:
    assert report(results) == report(results)


def test_findings_are_computed(results: Path, config: Config) -> None:
    summary = table([results / "runs" / run_id for run_id in config.runs], config.analysis)
    rows = [{str(k): v for k, v in row.items()} for row in summary.reset_index().to_dict("records")]
    sentences = findings(rows)
    assert sentences[0] == "1 of 3 runs collapsed."
    assert "within 0.0" in sentences[1]
    assert sentences[2].startswith("1 run had learned before collapsing: Post-Norm, lr 0.01")
    assert "does not collapse" in sentences[3]
    assert "below its frequency loss" in sentences[3]
    for row in rows:
        row["collapsed"] = False
    assert findings(rows)[0] == "0 of 3 runs collapsed."
    assert len(findings(rows)) == 4


def test_what_is_missing_is_named(results: Path, config: Config) -> None:
    summary = table([results / "runs" / run_id for run_id in config.runs], config.analysis)
    with pytest.raises(CollapseError, match="summary has no row for run"):
        render(config, results, summary.iloc[1:], [])
    (results / "probes" / "attention.json").unlink()
    with pytest.raises(CollapseError, match=r"attention\.zarr: missing or unfinished"):
        render(config, results, summary, [])
    (results / "figures" / "overview.png").unlink()
    with pytest.raises(CollapseError, match=r"overview\.png: the figure is missing"):
        render(config, results, summary, [])


def test_claims_are_shown_as_text_with_their_verdicts(results: Path) -> None:
    html = report(results)
    text = Page(html).text
    assert "1 claim holds, 2 fail, 1 is undecided." in text
    for part in ("in <i>every</i> layer", "is small & falls", "<script>alert(1)</script>", "0.001235", "2.4 to 2.9"):
        assert part in text
    assert "<i>" not in html
    assert [text.count(mark) for mark in ("✓ holds", "✗ fails", "? undecided")] == [1, 2, 1]
    verdicts = [text.index(mark) for mark in ("✗ fails", "? undecided", "✓ holds")]
    assert verdicts == sorted(verdicts)
    for anchor, heading in (
        ("fig01_increments", "Figure 1"),
        ("fig09_prefix_average", "Figure 9"),
        ("approximation_split", "Approximation split"),
    ):
        assert f'<a href="#{anchor}">{heading}</a>' in html
    assert html.index('id="claims"') < html.index('id="runs"') < html.index('id="figures"')


def test_where_datasets_come_from(make_probe: Make, tmp_path: Path) -> None:
    slices = [{"code": "a" * 16, "threads": threads} for threads in (1, 1, 2)]
    for name, origin in (("first", {"code": "b" * 16, "slices": slices}), ("second", {"code": "b" * 16})):
        publish_dataset(make_probe("concentration"), tmp_path / f"probes/{name}.zarr", {}, origin)
    assert [
        (what, pairs.get("threads")) for what, pairs in origins(tmp_path, [], ["probes/first", "probes/second"])
    ] == [
        ("slices of probes/first", "1"),
        ("slices of probes/first", "2"),
        ("probes/first, probes/second", None),
    ]


def test_figures_stand_in_the_sections_of_their_categories(results: Path, config: Config) -> None:
    html = report(results)
    drawn = figures(config).values()
    categories = list(dict.fromkeys(load_family(figure.family).category for figure in drawn))
    assert set(categories) == {"At initialization", "Runs", "Overview", "Every run over depth"}
    order = ["overview", "claims", "runs", "figures", "maps"]
    places = [html.index(f' id="{anchor}"') for anchor in order]
    assert places == sorted(places)
    headings = {
        "At initialization": html.index("<h3>At initialization</h3>"),
        "Runs": html.index("<h3>Runs</h3>"),
        "Every run over depth": html.index(' id="maps"'),
    }
    for figure in drawn:
        category = load_family(figure.family).category
        if category in headings:
            place = html.index(f'<figure id="{figure.name}"')
            assert max((start, name) for name, start in headings.items() if start < place)[1] == category
    assert Page(html).text.count(load_family("tsim_heatmap").caption) == 1
