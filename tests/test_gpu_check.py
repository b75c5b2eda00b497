"""The script for a GPU, tried on the CPU at a tiny shape: its lines, its run that collapses, its figures."""

import os
import subprocess
import sys
import tarfile
import time
from pathlib import Path

import pytest
import torch

from collapse.config.root import load

ROOT = Path(__file__).parents[1]
BENCH = ROOT / "bench"


def check(out: Path, *options: str, **environment: str) -> subprocess.CompletedProcess[str]:
    settings = {"OUT": str(out), "PYTHON": sys.executable, "OMP_NUM_THREADS": "1", "CUDA_VISIBLE_DEVICES": ""}
    return subprocess.run(
        ["bash", BENCH / "gpu_check.sh", *options], capture_output=True, text=True, check=False,
        env=os.environ | settings | environment,
    )  # fmt: skip


@pytest.fixture(scope="module")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> tuple[subprocess.CompletedProcess[str], Path]:
    out = tmp_path_factory.mktemp("gpu_check")
    return check(out, "--tiny"), out


def values(printed: str) -> dict[str, float]:
    pairs = (line.split() for line in printed.splitlines())
    return {pair[0]: float(pair[1]) for pair in pairs if len(pair) == 2 and "_" in pair[0] and pair[0][-1] != ":"}


def test_every_line_is_printed(tiny) -> None:
    done, out = tiny
    assert done.returncode == 0, done.stdout + done.stderr
    found = values(done.stdout)
    contestants = ("bare", "recorded", "hugging_face")
    assert {name: found[f"tokens_per_second_{name}"] > 0 for name in contestants} == dict.fromkeys(contestants, True)
    assert {f"mfu_{name}" for name in contestants} < set(found)
    assert found["recording_overhead_paper_gpu"] > 0
    assert found["tokens_per_second_over_hf_gpu"] > 0
    assert "activation_memory_over_plan" in found
    assert (out / "output.txt").read_text() == done.stdout


def test_the_run_sits_on_the_frequency_loss(tiny) -> None:
    done, _ = tiny
    assert "the run: the training command, with DeepSpeed" in done.stdout
    assert abs(values(done.stdout)["final_loss_minus_frequency_loss"]) < 0.05


def test_figures_and_run_come_back_in_one_file(tiny) -> None:
    _, out = tiny
    with tarfile.open(out / "run.tar.gz") as archive:
        names = {Path(name).name for name in archive.getnames()}
    assert {"manifest.json", "metrics.zarr"} < names
    for figure in ("fig03_gradient_contribution", "fig04_contraction", "fig05_gradient_norms", "fig06_frequency_loss"):
        assert {f"{figure}.png", f"{figure}.pdf"} < names
    assert not (out / "run").exists()


def test_without_deepspeed_the_run_is_the_same(tiny, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(BENCH))
    import gpu_check
    import gpu_run

    config = load(ROOT / "config/paper.yaml")
    model = config.model.model_copy(update=gpu_check.TINY)
    spec = gpu_run.spec_of(config, model, tiny=True)
    monkeypatch.setattr(gpu_run, "STORES", ("no_such_package",))
    loss, floor = gpu_run.plain_run(
        spec, gpu_run.words(model.vocab_size), torch.device("cpu"), tmp_path / "run", time.monotonic() + 600
    )
    assert loss - floor == pytest.approx(values(tiny[0].stdout)["final_loss_minus_frequency_loss"], abs=1e-3)
    assert (tmp_path / "run" / "metrics.npz").is_file()


def test_no_gpu_is_a_sentence(tmp_path: Path) -> None:
    done = check(tmp_path)
    assert done.returncode == 1
    assert "sees no GPU" in done.stdout and "Traceback" not in done.stdout + done.stderr


def test_no_pytorch_is_a_sentence(tmp_path: Path) -> None:
    done = check(tmp_path, PYTHON="/bin/false")
    assert done.returncode == 1
    assert done.stderr.startswith("error: no Python here can import torch")
