"""However a batch is split over processes and accumulation steps, a run's numbers are those of plain PyTorch."""

from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr
from torch.nn import functional

from collapse.model.decoder import Decoder
from collapse.store.read import open_run
from collapse.training.engine import parameter_groups
from collapse.training.loop import batches_of
from collapse.training.schedule import learning_rate_factor

SPLITS = {"one": (1, 8), "accumulated": (1, 2), "two": (2, 4), "both": (2, 1)}


@pytest.fixture(scope="module", params=["post", "pre"])
def placement(request: pytest.FixtureRequest) -> str:
    return request.param


@pytest.fixture(scope="module")
def runs(placement: str, lab, tmp_path_factory: pytest.TempPathFactory) -> dict[str, xr.Dataset]:
    """The same run by one process and two, with accumulation 1 and 4, through the training command."""
    names = SPLITS if placement == "post" else {name: SPLITS[name] for name in ("one", "both")}
    out = {}
    for name, (processes, micro) in names.items():
        folder = tmp_path_factory.mktemp(f"{placement}-{name}")
        spec = lab.spec(placement=placement, steps=6)
        done = lab.run(spec, lab.execution(processes=processes, micro_batch_size=micro), folder)
        assert done.returncode == 0, done.stderr
        assert not (folder / "scratch" / "run").exists()
        out[name] = open_run(folder / "run").load()
    return out


def test_the_split_does_not_matter(runs: dict[str, xr.Dataset]) -> None:
    reference = runs["one"]
    for name, run in runs.items():
        for variable in reference.data_vars:
            np.testing.assert_allclose(
                run[variable], reference[variable], rtol=2e-3, atol=1e-7, err_msg=f"{name}: {variable}"
            )
        np.testing.assert_allclose(run.loss, reference.loss, rtol=1e-5, err_msg=name)
        first = {"step": 0}
        for variable in ("grad_x", "grad_y", "param_grad", "alpha", "transport", "tsim_x", "rms_spread"):
            np.testing.assert_allclose(
                run[variable].isel(first), reference[variable].isel(first), rtol=1e-4, err_msg=f"{name}: {variable}"
            )
        np.testing.assert_allclose(run.grad_norm[0], reference.grad_norm[0], rtol=1e-5, err_msg=name)


def test_plain_pytorch_gives_the_same_losses_and_gradients(lab, runs: dict[str, xr.Dataset], placement: str) -> None:
    run = runs["one"]
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


def test_what_is_recorded_besides(lab, runs: dict[str, xr.Dataset]) -> None:
    run = runs["one"]
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


def test_the_small_scopes_train_on_the_same_labels_for_ever(lab, tmp_path: Path) -> None:
    spec = lab.spec(scope="sequence", steps=4, warmup_steps=0)
    done = lab.run(spec, lab.execution(), tmp_path)
    assert done.returncode == 0, done.stderr
    run = open_run(tmp_path / "run").load()
    assert len(set(run.freq_loss_batch.values)) == 1
    assert float(run.freq_loss) == pytest.approx(float(run.freq_loss_sequence[0]))
    assert list(run.tokens.values) == [24, 48, 72, 96]
    assert float(run.loss[-1]) < float(run.loss[0])


def test_bf16_stays_near_fp32(lab, runs: dict[str, xr.Dataset], placement: str, tmp_path: Path) -> None:
    """bf16 parameters and activations, fp32 statistics, accumulation and master weights; two processes."""
    spec = lab.spec(placement=placement, steps=6, precision="bf16")
    done = lab.run(spec, lab.execution(processes=2, micro_batch_size=2), tmp_path)
    assert done.returncode == 0, done.stderr
    run, reference = open_run(tmp_path / "run").load(), runs["one"]
    np.testing.assert_allclose(run.loss, reference.loss, rtol=1e-3)
    np.testing.assert_allclose(run.grad_norm, reference.grad_norm, rtol=2e-2)
    for variable in ("alpha", "contraction", "tsim_x", "tsim_y", "grad_x", "grad_y", "param_grad"):
        np.testing.assert_allclose(run[variable][0], reference[variable][0], rtol=1e-2, err_msg=variable)
