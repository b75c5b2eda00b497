"""`collapse verify` computes the digests again and names every file that differs."""

import json
import shutil
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path

import pytest

from collapse import cli
from collapse.errors import CollapseError
from collapse.store.dataset import load_dataset
from collapse.store.manifest import FORMAT
from collapse.store.read import load_run, open_run
from collapse.upkeep.verify import verify


@pytest.fixture(scope="module")
def made(
    tmp_path_factory: pytest.TempPathFactory, make_run: Callable, publish_run: Callable, make_probe: Callable,
    publish_probe: Callable, byte_tokens: Path,
) -> Path:  # fmt: skip
    """A results folder with a store of every kind."""
    results = tmp_path_factory.mktemp("made")
    publish_run(make_run(steps=30, layers=2), results)
    publish_probe(make_probe("swiglu_moment"), results / "theory/swiglu_moment.zarr")
    publish_probe(make_probe("attention", layers=2), results / "probes/slices/attention-0-8.zarr")
    shutil.copytree(byte_tokens, results / "tokens/bytes")
    (results / "tokens/bytes/tokenizer.model").write_bytes(b"a tokenizer")
    rewrite(results / "tokens/bytes/manifest.json", tokenizer_sha256=sha256(b"a tokenizer").hexdigest())
    return results


@pytest.fixture
def results(made: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(made, tmp_path / "results"))


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def problems(results: Path) -> list[str]:
    return [problem for store in verify(results) for problem in store.problems]


def rewrite(manifest: Path, **changes: object) -> None:
    content = json.loads(manifest.read_text()) | changes
    manifest.write_text(json.dumps({key: value for key, value in content.items() if value is not None}))


def test_complete_stores(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (results / "runs/under-way").mkdir()
    (next(results.glob("runs/*/metrics.zarr")) / ".snakemake_timestamp").touch()
    cli.verify(results)
    assert capsys.readouterr().out == "all 4 stores are complete\n"


def test_every_damaged_file_is_named(results: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = next(results.glob("runs/*/metrics.zarr"))
    flip(run / "loss/c/0")
    (run / "alpha/c/0/0/0").unlink()
    (run / "stray").touch()
    flip(results / "theory/swiglu_moment.zarr/moment/c/0/0")
    (results / "tokens/bytes/validation.bin").unlink()
    shutil.rmtree(results / "probes/slices/attention-0-8.zarr")
    with pytest.raises(CollapseError, match="4 of 4 stores are not complete"):
        cli.verify(results)
    lines = capsys.readouterr().out.splitlines()
    expected = {
        f"{run}/loss/c/0: damaged", f"{run}/alpha/c/0/0/0: missing", f"{run}/stray: not in the manifest",
        f"{results}/theory/swiglu_moment.zarr/moment/c/0/0: damaged", f"{results}/tokens/bytes/validation.bin: missing",
    }  # fmt: skip
    assert expected <= set(lines)
    rest = set(lines) - expected
    assert rest and all("attention-0-8.zarr" in line and line.endswith(": missing") for line in rest)


def test_readers_name_the_damaged_file(results: Path) -> None:
    run = next(results.glob("runs/*/metrics.zarr"))
    flip(run / "loss/c/0")
    with pytest.raises(CollapseError, match=r"loss/c/0: damaged"):
        load_run(run)
    theory = results / "theory/swiglu_moment.zarr"
    (theory / "moment/c/0/0").unlink()
    with pytest.raises(CollapseError, match=r"moment/c/0/0: missing"):
        load_dataset(theory)


def test_manifests_of_format_1_verify_by_their_digest(results: Path) -> None:
    for manifest in (next(results.glob("runs/*/manifest.json")), results / "theory/swiglu_moment.json"):
        rewrite(manifest, files=None, format=1)
    assert not problems(results)
    run = next(results.glob("runs/*/metrics.zarr"))
    flip(run / "loss/c/0")
    assert problems(results) == [f"{run}: its files differ from those that its manifest describes"]


@pytest.mark.parametrize("damage", ["{", "[]", '{"format": 2}'])
def test_a_file_that_is_not_a_manifest(results: Path, damage: str) -> None:
    (results / "theory/swiglu_moment.json").write_text(damage)
    (problem,) = problems(results)
    assert "damaged: swiglu_moment.json is not a manifest" in problem


def test_a_changed_table_of_files(results: Path) -> None:
    rewrite(next(results.glob("runs/*/manifest.json")), files={})
    assert problems(results) == [f"{next(results.glob('runs/*/metrics.zarr'))}: its manifest contradicts itself"]


def test_a_newer_format_is_rejected(results: Path) -> None:
    run = next(results.glob("runs/*/manifest.json"))
    theory = results / "theory/swiglu_moment.json"
    for manifest in (run, theory):
        rewrite(manifest, format=FORMAT + 1)
    sentence = rf"written by a newer version \(format {FORMAT + 1}, this version reads {FORMAT}\): update collapse"
    with pytest.raises(CollapseError, match=sentence):
        open_run(run.parent)
    with pytest.raises(CollapseError, match=sentence):
        load_dataset(theory.with_suffix(".zarr"))
    assert len(problems(results)) == 2 and all("newer version" in problem for problem in problems(results))


def test_an_empty_folder(tmp_path: Path) -> None:
    with pytest.raises(CollapseError, match="nothing finished here"):
        list(verify(tmp_path / "nowhere"))


def test_the_command(results: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    flip(next(results.glob("tokens/*/train.bin")))
    monkeypatch.setattr("sys.argv", ["collapse", "verify", str(results)])
    with pytest.raises(SystemExit) as left:
        cli.main()
    printed = capsys.readouterr()
    assert left.value.code == 1
    assert printed.out == f"{results}/tokens/bytes/train.bin: damaged\n"
    (line,) = printed.err.splitlines()
    assert line.startswith(f"error: {results}: 1 of 4 stores are not complete")
