"""What the documents say exists, exists."""

import re
from pathlib import Path

import pytest
import yaml

from collapse.config.root import load

ROOT = Path(__file__).parents[1]
PAGES = [
    ROOT / "README.md",
    ROOT / "results/README.md",
    ROOT / "config/README.md",
    ROOT / "CONTRIBUTING.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").glob("*.md")),
]
TEXTS = [*PAGES, *(ROOT / "src").rglob("*.py"), *(ROOT / "workflow").rglob("*.smk"), *(ROOT / "bench").glob("*.py")]
FOLDERS = ["", "src/collapse", "workflow", "tests"]
"""Where a file that a text names may start, besides beside the text."""


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for link in re.findall(r"\]\(([^)#]+)\)", page.read_text()):
        assert link.startswith("https://") or (page.parent / link).exists(), link


def test_files_named_exist() -> None:
    """A path in backquotes names a file of the project, such as `model/norm.py`, also with `:name` behind it."""
    missing = [
        (str(text.relative_to(ROOT)), name)
        for text in TEXTS
        for name in re.findall(r"`([\w./-]+\.(?:py|smk|md|sh))(?::[\w.]+)?`", text.read_text())
        if not any((folder / name).exists() for folder in (text.parent, *(ROOT / start for start in FOLDERS)))
    ]
    assert missing == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_runs_named_are_runs_of_the_default_config(page: Path) -> None:
    runs = load(ROOT / "config/config.yaml").runs
    assert set(re.findall(r"p(?:ost|re)-lr\S+-[0-9a-f]{8}", page.read_text())) <= set(runs)


def test_the_readmes_grid_is_the_default_configs() -> None:
    (block,) = re.findall(r"```yaml\n(.*?)```", (ROOT / "README.md").read_text(), flags=re.DOTALL)
    shown, real = yaml.safe_load(block)["grid"], load(ROOT / "config/config.yaml").canonical()["grid"]
    assert [float(lr) for lr in shown["product"]["lr"]] == real["product"]["lr"]


def test_the_citation_is_valid_and_of_this_version() -> None:
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text())
    assert {"cff-version", "message", "title", "authors"} <= set(citation)
    assert f'version = "{citation["version"]}"' in (ROOT / "pyproject.toml").read_text()
    assert citation["references"][0]["title"].startswith("Why Post-Norm Transformers Collapse")
