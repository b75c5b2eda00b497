import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import collapse
from collapse.errors import CollapseError
from collapse.recording.statistics import METRICS
from collapse.store.read import load_run, open_run, open_runs, spec_of

Make = Callable[..., xr.Dataset]
Publish = Callable[[xr.Dataset, Path], Path]


@pytest.fixture
def run(make_run: Make, publish_run: Publish, tmp_path: Path) -> Path:
    return publish_run(make_run(steps=30, layers=3), tmp_path)


def test_reads_back_what_was_published(run: Path, make_run: Make) -> None:
    published = make_run(steps=30, layers=3)
    for path in (run, str(run), run / "metrics.zarr"):
        xr.testing.assert_identical(open_run(path).load(), published)
    xr.testing.assert_identical(load_run(run), published)
    assert spec_of(published)["training"]["steps"] == 30


def test_every_variable_has_a_long_name_and_units(run: Path) -> None:
    dataset = open_run(run)
    for metric in METRICS:
        assert dataset[metric.name].dims == metric.dims
        assert dataset[metric.name].attrs["long_name"] == metric.long_name
        assert dataset[metric.name].attrs["units"] == metric.units


def test_not_measured_is_nan(run: Path) -> None:
    measured = np.isfinite(open_run(run)["loss_floor"].values)
    assert list(np.flatnonzero(measured)) == [0, 10, 20]


def test_values_are_read_on_use(run: Path) -> None:
    dataset = open_run(run)
    assert not dataset["loss"].variable._in_memory


def test_no_run(tmp_path: Path) -> None:
    for path in (tmp_path / "nowhere", tmp_path / "nowhere" / "metrics.zarr"):
        with pytest.raises(CollapseError, match="nowhere: no run here"):
            open_run(path)


def test_unfinished(run: Path) -> None:
    (run / "manifest.json").unlink()
    with pytest.raises(CollapseError, match="unfinished"):
        open_run(run)


@pytest.mark.parametrize("text", ["", "{", "[]", b"\xff\xfe"])
def test_damaged_manifest(run: Path, text: str | bytes) -> None:
    (run / "manifest.json").write_bytes(text if isinstance(text, bytes) else text.encode())
    with pytest.raises(CollapseError, match=r"damaged: manifest\.json"):
        open_run(run)


@pytest.mark.parametrize("content", [None, b"", b"not json", b"{}"])
def test_damaged_metadata(run: Path, content: bytes | None) -> None:
    metadata = run / "metrics.zarr" / "zarr.json"
    if content is None:
        metadata.unlink()
    else:
        metadata.write_bytes(content)
    with pytest.raises(CollapseError, match="damaged"):
        open_run(run)


@pytest.mark.parametrize("damage", ["lost", "cut", "changed"])
def test_damaged_chunk(run: Path, damage: str) -> None:
    """Without the check, a lost chunk would read as NaN."""
    chunk = next(
        path for path in (run / "metrics.zarr" / "loss").rglob("*") if path.is_file() and path.parent.name == "c"
    )
    content = chunk.read_bytes()
    if damage == "lost":
        chunk.unlink()
    else:
        chunk.write_bytes(content[: len(content) // 2] if damage == "cut" else content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(CollapseError, match="damaged"):
        load_run(run)


def test_damaged_chunk_without_a_digest(run: Path) -> None:
    """An unreadable store gives an error of one sentence even if the manifest has no digest."""
    manifest = json.loads((run / "manifest.json").read_text())
    del manifest["digest"], manifest["files"]
    (run / "manifest.json").write_text(json.dumps(manifest))
    next(p for p in (run / "metrics.zarr" / "loss").rglob("*") if p.parent.name == "c").write_bytes(b"nothing")
    with pytest.raises(CollapseError, match=r"damaged: metrics\.zarr cannot be read"):
        load_run(run)


def test_a_tree_of_all_finished_runs(run: Path, make_run: Make, publish_run: Publish, tmp_path: Path) -> None:
    other = publish_run(make_run("stable", steps=20, layers=3, lr=1e-3), tmp_path)
    (tmp_path / "runs" / "under-way").mkdir()
    tree = open_runs(tmp_path)
    assert set(tree.children) == {run.name, other.name}
    assert tree[other.name]["loss"].sizes == {"step": 20}
    assert tree[run.name].attrs["run_id"] == run.name


def test_no_finished_runs(tmp_path: Path) -> None:
    with pytest.raises(CollapseError, match="no finished runs"):
        open_runs(tmp_path)


def test_public_names_need_no_torch(run: Path) -> None:
    script = (
        f"import sys, collapse\ncollapse.open_run({str(run)!r})\nprint('torch' in sys.modules, collapse.__version__)"
    )
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["False", collapse.__version__]


def test_the_package_provides_every_name_it_lists() -> None:
    assert {"open_run", "open_runs", "summarize", "token_similarity", "token_diversity"} <= set(dir(collapse))
    for name in collapse.__all__:
        assert getattr(collapse, name) is not None
