"""However a run is executed, its numbers are those of plain PyTorch, as closely as docs/fidelity.md states."""

import json
import os
import re
import runpy
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pytest
import torch
import xarray as xr
from torch.nn import functional

from collapse.config.execution import ExecutionConfig
from collapse.config.model import ModelConfig
from collapse.config.root import load
from collapse.config.run import RunSpec
from collapse.model.decoder import Decoder
from collapse.model.norm import residual_norm
from collapse.recording.recorder import Recorder
from collapse.recording.statistics import METRICS
from collapse.recording.taps import GRADIENT_SCALE
from collapse.store.read import open_run
from collapse.training.engine import parameter_groups
from collapse.training.learning_rate import learning_rate_factor
from collapse.training.loop import batches_of
from collapse.training.measurements import Pending

Train = Callable[..., xr.Dataset]

ROOT = Path(__file__).parents[2]
SCRIPT = Path(__file__).with_name("splits.py")
IN_PLACE = runpy.run_path(str(SCRIPT))
PAPER = ROOT / "config" / "paper.yaml"
BATCH = 128
SMALLER = {
    "model": {"layers": 4, "width": 32, "ffn_width": 96, "sequence_length": 16, "vocab_size": 256},
    "training": {"steps": 3, "warmup_steps": 2, "batch_size": BATCH},
    "record": {"floor_every": 2, "validation_sequences": 8},
}
"""Sizes that a CPU needs; all else is as in the paper's config."""
TEXT = {
    "corpus": {"source": "shards", "files": ["unused.json.gz"]},
    "tokens": {"tokenizer": {"kind": "file", "path": "unused.model"}},
}


def paper_spec(**changes: object) -> RunSpec:
    """The first run of the paper's config, smaller, with values of `model` or `training` replaced by name."""
    paper = next(iter(load(PAPER).runs.values())).canonical()
    spec = TEXT | {section: paper[section] | values for section, values in SMALLER.items()}
    for key, value in changes.items():
        spec["model" if key in ModelConfig.model_fields else "training"][key] = value
    return RunSpec.model_validate(spec)


class Split(NamedTuple):
    """One way to execute a run."""

    processes: int
    accumulation: int
    activation_checkpointing: bool = False

    @property
    def execution(self) -> ExecutionConfig:
        return ExecutionConfig(
            device="cpu", processes=self.processes, log_seconds=1e9,
            micro_batch_size=BATCH // self.processes // self.accumulation,
            activation_checkpointing=self.activation_checkpointing,
        )  # fmt: skip


WHOLE = Split(1, 1)
MANY = [
    WHOLE, Split(1, 4), Split(1, 64), Split(1, 4, activation_checkpointing=True),
    Split(2, 1), Split(2, 64), Split(2, 4, activation_checkpointing=True),
]  # fmt: skip
FEW = [WHOLE, Split(2, 4)]
VARIANTS: dict[str, tuple[dict[str, object], list[Split]]] = {
    "post": ({}, MANY),
    "post-bf16": ({"precision": "bf16"}, MANY),
    "pre": ({"placement": "pre"}, FEW),
    "pre-bf16": ({"placement": "pre", "precision": "bf16"}, FEW),
    "untied": ({"tie_embeddings": False}, FEW),
}


@pytest.fixture(scope="module")
def runs(lab, process_group: None, tmp_path_factory: pytest.TempPathFactory) -> dict[str, dict[Split, xr.Dataset]]:
    """Every variant, split in every way; one pair of processes trains all runs of two processes."""
    folder = tmp_path_factory.mktemp("splits")
    cases = {
        (variant, split): (paper_spec(**{"precision": "fp32"} | changes), split.execution, folder / f"{variant}-{i}")
        for variant, (changes, splits) in VARIANTS.items()
        for i, split in enumerate(splits)
    }
    pairs = [
        [spec.canonical(), execution.canonical(), str(out)]
        for spec, execution, out in cases.values()
        if execution.processes == 2
    ]
    command = [
        sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2", str(SCRIPT),
        str(lab.tokens), json.dumps(pairs),
    ]  # fmt: skip
    environment = os.environ | {"PYTHONWARNINGS": "ignore", "OMP_NUM_THREADS": "1"}
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=environment) as two:
        for spec, execution, out in cases.values():
            if execution.processes == 1:
                IN_PLACE["train"](spec, execution, lab.tokens, out)
        _, said = two.communicate()
    assert two.returncode == 0, said
    found: dict[str, dict[Split, xr.Dataset]] = {variant: {} for variant in VARIANTS}
    for (variant, split), (_, _, out) in cases.items():
        found[variant][split] = open_run(out).load()
    return found


def stated() -> dict[str, list[float]]:
    """Tolerances of docs/fidelity.md by variable: fp32 and bf16 between splits, bf16 from fp32 at once and later."""
    page = (ROOT / "docs" / "fidelity.md").read_text()
    rows = [line.strip("| ").split("|") for line in page.splitlines() if line.startswith("| `")]
    return {name: [float(cell) for cell in cells] for names, *cells in rows for name in re.findall(r"`(\w+)`", names)}


def test_every_variable_has_a_stated_tolerance() -> None:
    assert set(stated()) == {metric.name for metric in METRICS}


def deviations(run: xr.Dataset, reference: xr.Dataset) -> dict[str, np.ndarray]:
    """Largest relative deviation of every variable per step; a value missing in one only is infinitely far."""
    found = {}
    for name, wanted in reference.data_vars.items():
        both = np.broadcast_arrays(run[name].values, wanted.values)
        got, want = (np.atleast_1d(values).reshape(len(np.atleast_1d(values)), -1) for values in both)
        off = np.abs(got - want) / np.where(want == 0, 1, np.abs(want))
        missing = np.isnan(got), np.isnan(want)
        off = np.where(missing[0] & missing[1], 0, np.where(missing[0] | missing[1], np.inf, off))
        found[str(name)] = off.max(-1)
    return found


def report(off: dict[str, np.ndarray], title: str) -> None:
    """Print what was measured; pytest -s shows it."""
    print(f"\n{title}: " + " ".join(f"{name} {values.max():.1e}" for name, values in off.items()))


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_split_does_not_matter(runs: dict[str, dict[Split, xr.Dataset]], variant: str) -> None:
    column = 1 if variant.endswith("bf16") else 0
    tolerances = stated()
    for split, run in runs[variant].items():
        off = deviations(run, runs[variant][WHOLE])
        report(off, f"{variant} {tuple(split)}")
        for name, values in off.items():
            assert values.max() <= tolerances[name][column], (name, split)


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_bf16_stays_near_fp32(runs: dict[str, dict[Split, xr.Dataset]], placement: str) -> None:
    """Parameters, activations and their gradients are bf16; statistics, accumulation and master weights fp32."""
    tolerances = stated()
    off = deviations(runs[f"{placement}-bf16"][WHOLE], runs[placement][WHOLE])
    report({name: values[:1] for name, values in off.items()}, f"{placement}, bf16 from fp32, first")
    report({name: values[-2:] for name, values in off.items()}, "later")
    for name, values in off.items():
        assert values.max() <= tolerances[name][3], name
        if len(values) > 1:
            assert values[0] <= tolerances[name][2], name


def test_activation_checkpointing_changes_no_bit(runs: dict[str, dict[Split, xr.Dataset]]) -> None:
    for variant in ("post", "post-bf16"):
        with_it, without = (runs[variant][split] for split in (Split(1, 4, True), Split(1, 4)))
        for name in ("tsim_x", "tdiv_y", "rms_factor", "grad_x", "grad_y", "loss"):
            assert np.array_equal(with_it[name][0], without[name][0]), (variant, name)


@pytest.fixture
def small(lab, process_group: None, tmp_path: Path) -> Train:
    """Trains the small run of these tests in this process."""

    def train(**changes: object) -> xr.Dataset:
        IN_PLACE["train"](lab.spec(**{"steps": 6} | changes), lab.execution(), lab.tokens, tmp_path)
        return open_run(tmp_path).load()

    return train


@pytest.mark.parametrize("placement", ["post", "pre"])
def test_plain_pytorch_gives_the_same_losses_and_gradients(lab, small: Train, placement: str) -> None:
    run = small(placement=placement)
    spec = lab.spec(placement=placement, steps=6)
    model = Decoder(spec.model, spec.training.seed)
    training = spec.training
    optimizer = torch.optim.AdamW(parameter_groups(model, training.weight_decay), lr=training.lr, betas=training.betas)
    factor = learning_rate_factor(training)
    batches = batches_of(spec, lab.store)
    for step in range(training.steps):
        inputs, labels = (torch.from_numpy(a) for a in batches.at(step))
        for group in optimizer.param_groups:
            group["lr"] = training.lr * factor(step)
        loss = functional.cross_entropy(model(inputs).flatten(0, 1), labels.flatten())
        loss.backward()
        at = run.isel(step=step)
        assert float(at.loss) == pytest.approx(loss.item(), abs=5e-6)
        assert float(at.lr) == pytest.approx(training.lr * factor(step))
        wanted = [
            torch.stack([p.grad.norm() for p in matrices]).norm().item() for matrices in model.sublayer_matrices()
        ]
        np.testing.assert_allclose(at.param_grad.values.ravel(), wanted, rtol=1e-3)
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), training.clip)
        assert float(at.grad_norm) == pytest.approx(float(norm), rel=1e-3)
        optimizer.step()
        optimizer.zero_grad()


def test_what_is_recorded_besides(lab, small: Train) -> None:
    run = small(placement="post")
    assert run.attrs["ended"] == "completed"
    assert list(run.step.values) == list(range(6)) and list(run.layer.values) == [1, 2, 3]
    assert list(run.tokens.values) == [8 * 24 * (s + 1) for s in range(6)]
    written = np.isfinite(run.lm_head_norm.values)
    assert list(written) == [s % 3 == 0 for s in range(6)]
    assert list(np.isfinite(run.loss_floor.values)) == list(written)
    # Theorem 3.8 (i): at every step where the bound was recorded, the loss is above it.
    assert bool((run.loss_floor[written] <= run.loss[written]).all())
    assert bool((run.freq_loss_sequence <= run.freq_loss_batch + 1e-9).all())
    p = np.array(lab.store.manifest.token_frequencies) / lab.store.manifest.train.tokens
    p = p[p > 0]
    assert float(run.freq_loss) == pytest.approx(-(p * np.log(p)).sum())
    assert 0 < float(run.validation_loss) < 10
    layerwise = [v for v in run.data_vars.values() if len(v.dims) == 3]
    assert len(layerwise) == 14 and all(np.isfinite(v.values).all() for v in layerwise)
    assert all({"long_name", "units"} <= set(v.attrs) for v in run.data_vars.values())


def test_the_small_scopes_train_on_the_same_labels_for_ever(small: Train) -> None:
    run = small(scope="sequence", steps=4, warmup_steps=0)
    assert len(set(run.freq_loss_batch.values)) == 1
    assert float(run.freq_loss) == pytest.approx(float(run.freq_loss_sequence[0]))
    assert list(run.tokens.values) == [24, 48, 72, 96]
    assert float(run.loss[-1]) < float(run.loss[0])


def test_the_command_starts_two_processes_and_says_what_it_trains(lab, tmp_path: Path) -> None:
    spec = lab.spec(steps=4)
    execution = lab.execution(processes=2, micro_batch_size=2, activation_checkpointing=True)
    done = lab.run(spec, execution, tmp_path)
    assert done.returncode == 0, done.stderr
    assert [path.name for path in (tmp_path / "scratch" / "run").iterdir()] == ["finished"]
    assert f"{Decoder(spec.model).parameter_count:,} parameters" in done.stderr
    origin = json.loads(open_run(tmp_path / "run").attrs["provenance"])
    wanted = {"processes": 2, "micro_batch_size": 2, "activation_checkpointing": True}
    assert wanted.items() <= origin.items()


def test_the_paper_has_about_180_million_parameters() -> None:
    with torch.device("meta"):
        count = Decoder(load(PAPER).model).parameter_count
    layers, width, ffn_width, vocabulary = 48, 512, 1536, 32000
    matrices = layers * (4 * width**2 + 3 * width * ffn_width)
    gains = (2 * layers + 1) * width
    assert count == matrices + gains + vocabulary * width == 180_011_520


def test_norms_of_bf16_rows_and_gradients_are_accumulated_in_fp32() -> None:
    """All numbers here are near 1: a running sum of squares in bf16 would stop at 256 and give a wrong norm."""
    generator = torch.Generator().manual_seed(1)
    shape = (2, 512, 64)
    rows, gradient = ((1 + 0.1 * torch.randn(shape, generator=generator)).bfloat16() for _ in range(2))
    tap = Recorder(1, shape[-1], x_is_normed=True).taps(*shape[:2])[1]
    rows.requires_grad_()
    y, normed = residual_norm(rows, torch.zeros_like(rows), torch.ones(shape[-1], dtype=torch.bfloat16), 1e-5, tap)
    (gradient_y,) = torch.autograd.grad(normed, rows, gradient)
    exact = {"y": y, "x": normed, "grad_x": gradient, "grad_y": gradient_y}
    exact = {name: tensor.detach().double() for name, tensor in exact.items()}
    centred = {name: exact[name] - exact[name].mean(1, keepdim=True) for name in "yx"}
    pairs = [
        (tap.row_sq, exact["y"].square().sum(-1)),
        (tap.y.mean, exact["y"].mean(1, keepdim=True)),
        (tap.x.mean, exact["x"].mean(1, keepdim=True)),
        (tap.y.centred_norm, centred["y"].norm(dim=(1, 2))),
        (tap.x.centred_norm, centred["x"].norm(dim=(1, 2))),
        (tap.grad_x_sq / GRADIENT_SCALE, exact["grad_x"].square().sum()),
        (tap.grad_y_sq / GRADIENT_SCALE, exact["grad_y"].square().sum()),
    ]
    for measured, wanted in pairs:
        assert measured.dtype == torch.float32
        np.testing.assert_allclose(measured.double(), wanted, rtol=2e-5)
        assert not np.allclose(wanted.bfloat16().double(), wanted, rtol=2e-5), "bf16 would have done"


def test_parameter_gradients_are_accumulated_in_fp32(lab, process_group: None, tmp_path: Path, monkeypatch) -> None:
    from collapse.training import loop

    trainer = IN_PLACE["trainer_of"](paper_spec(precision="bf16"), Split(1, 4).execution, lab.tokens, tmp_path)
    gradients = {}
    measure = loop.sublayer_gradient_sq

    def captured(decoder: Decoder) -> torch.Tensor:
        gradients.update({p: p.get_full_hp_grad().double() for p in decoder.parameters()})
        return measure(decoder)

    monkeypatch.setattr(loop, "sublayer_gradient_sq", captured)
    pending = Pending(0)
    trainer.step(0, pending)
    for matrices, square in zip(trainer.decoder.sublayer_matrices(), pending.param_sq[0], strict=True):
        wanted = sum(gradients[p].square().sum() for p in matrices)
        assert float(square) == pytest.approx(float(wanted), rel=1e-6)
        assert not any(torch.equal(gradients[p].bfloat16().double(), gradients[p]) for p in matrices)
    norm = torch.stack([g.norm() for g in gradients.values()]).norm()
    assert pending.host[0]["grad_norm"] == pytest.approx(float(norm), rel=1e-6)
