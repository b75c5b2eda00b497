"""Theorem 3.6 on a state that training has collapsed: the contraction factor bounds the measured gradient transport."""

import numpy as np
import pytest
import torch

from collapse.model.decoder import Decoder
from collapse.recording.recorder import Recorder, means_and_sums, unpack
from collapse.training.loop import batches_of, cross_entropy

LAYERS, N = 16, 32


@pytest.fixture(scope="module")
def collapsed(lab) -> dict[str, np.ndarray]:
    """Real text, no warmup, a high learning rate, gains held at 1; measured in float64 once collapsed."""
    spec = lab.spec(layers=LAYERS, sequence_length=N, batch_size=4, lr=1e-2, warmup_steps=0, steps=60, horizon=None)
    model = Decoder(spec.model, seed=0)
    for gain in model.norms:
        gain.requires_grad_(False)
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], lr=1e-2, betas=(0.9, 0.95))
    batches = batches_of(spec, lab.store)
    for step in range(spec.training.steps):
        inputs, labels = (torch.from_numpy(a) for a in batches.at(step))
        cross_entropy(model(inputs), labels).backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad()
    model.double()
    for gain in model.norms:
        gain.requires_grad_(True)
    recorder = Recorder(LAYERS, spec.model.width, x_is_normed=True, dtype=torch.float64)
    inputs, labels = (torch.from_numpy(a[:1]) for a in batches.at(0))
    torch.nn.functional.cross_entropy(model(inputs, recorder).flatten(0, 1), labels.flatten()).backward()
    recorder.collect()
    means, sums = means_and_sums(recorder.end_step()[None], LAYERS)
    found = unpack(means.numpy(), sums.numpy(), np.ones((1, 2 * LAYERS)), LAYERS, world_size=1)
    return {name: values.ravel() for name, values in found.layerwise.items()} | found.stepwise


def test_the_state_is_collapsed(collapsed: dict[str, np.ndarray]) -> None:
    assert collapsed["tsim_final"][0] > 0.999
    assert (collapsed["tdiv_y"] < 1 / (4 * N + 1)).sum() >= LAYERS


def test_theorem_3_6_where_collapse_is_all_but_exact(collapsed: dict[str, np.ndarray]) -> None:
    exact = (collapsed["tdiv_x"] < 1e-6) & (collapsed["tdiv_y"] < 1e-6)
    assert exact.sum() >= LAYERS // 2
    assert (collapsed["transport"][exact] <= collapsed["contraction"][exact] * (1 + 1e-3)).all()
    # The bound says something: what the theorem calls contraction happens, and not by a trivial margin everywhere.
    assert (collapsed["contraction"][exact] < 1).any()
    assert (collapsed["transport"][exact] > 0.01 * collapsed["contraction"][exact]).any()


def test_proposition_d_1_near_collapse(collapsed: dict[str, np.ndarray]) -> None:
    delta = collapsed["tdiv_y"]
    near = (delta > 0) & (delta <= 1 / (4 * N + 1))
    slack = 2 * np.sqrt(N * delta / (1 - delta))
    bound = collapsed["rms_factor_mean_token"] * (1 + slack) * collapsed["alpha"]
    assert near.any() and (collapsed["transport"][near] <= bound[near]).all()


def test_theorem_c_6_at_every_sublayer(collapsed: dict[str, np.ndarray]) -> None:
    """With gain 1, X of the next sublayer is T Y with T diagonal: its token similarity obeys the bounds of C.6."""
    t, eta = collapsed["tsim_y"], collapsed["rms_spread"]
    after = np.append(collapsed["tsim_x"][1:], collapsed["tsim_final"])
    inside = eta < 1
    low = np.maximum(np.sqrt(t) - eta, 0) ** 2 / (1 + eta) ** 2
    high = (np.sqrt(t) + eta) ** 2 / (1 - eta) ** 2
    assert inside.any()
    assert (after[inside] >= low[inside] - 1e-9).all() and (after[inside] <= high[inside] + 1e-9).all()
