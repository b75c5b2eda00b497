"""The stacks of the attention sums: equal to the decoder, for every block size, and bit for bit after a stop."""

import shutil

import numpy as np
import pytest
import torch

from collapse.corpus.store import TokenStore
from collapse.model.decoder import Decoder
from collapse.probes import attention_sums, triangle
from collapse.probes.attention_sums import SUMS, Initializations, Spec
from collapse.probes.network import Network, attention_weights, read_window
from collapse.probes.triangle import unpack
from collapse.recording.recorder import Recorder, means_and_sums
from collapse.recording.recorder import unpack as unpack_recorded
from collapse.similarity import token_similarity
from collapse.store import job as jobs
from collapse.store.dataset import load_dataset
from collapse.store.job import Job, run_job
from collapse.store.parts import Parts


@pytest.fixture
def spec(stack):
    return Spec.model_validate(stack)


@pytest.fixture
def window(spec, byte_tokens):
    return read_window(TokenStore.open(byte_tokens).train, spec.model, spec.window)


@pytest.mark.parametrize("rms", ["unit", "as_trained"])
def test_the_stack_agrees_with_the_decoder(spec, window, rms):
    spec = spec.model_copy(update={"input_rms": rms})
    stacks = Initializations(spec, window, range(4, 6))
    tsim = []
    for _ in range(spec.model.layers):
        tsim.append([float(token_similarity(x)) for x in stacks.x])
        stacks.advance()
    for index, seed in enumerate((4, 5)):
        decoder = Decoder(spec.model, seed)
        recorder = Recorder(spec.model.layers, spec.model.width, x_is_normed=True)
        decoder(window[None], recorder).sum().backward()
        recorder.collect()
        means, sums = means_and_sums(recorder.end_step()[None].double(), spec.model.layers)
        recorded = unpack_recorded(means.numpy(), sums.numpy(), np.zeros((1, 6)), spec.model.layers, 1)
        np.testing.assert_allclose(np.array(tsim)[:, index], recorded.layerwise["tsim_x"][0, :, 0], rtol=1e-5)
        hidden = decoder.hidden(window[None])[0].detach()
        torch.testing.assert_close(stacks.x[index], hidden, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("rows", [1, 5, 24, 256])
def test_the_block_size_does_not_change_the_sums(spec, window, rows, monkeypatch):
    monkeypatch.setattr(triangle, "BLOCK_ROWS", rows)
    stacks = Initializations(spec, window, range(1), torch.float64)
    x, network = stacks.x[0], Network(spec.model, 0, torch.float64)
    weights = attention_weights(network.draw_layer().attention, x, network.rotary)
    moved = weights @ x
    sums = stacks.advance()
    wanted = {"sum_p": weights, "sum_pxxp": moved @ moved.mT, "sum_xx": (x @ x.T)[None]}
    for name, values in wanted.items():
        np.testing.assert_allclose(unpack(sums[name][0], 24), values.sum(0).tril(), rtol=1e-6, atol=1e-9, err_msg=name)


@pytest.fixture
def command(spec, byte_tokens, tmp_path):
    def run(first=0, last=2):
        job = Job(spec, Parts(tmp_path / "scratch"), range(first, last), byte_tokens)
        run_job(attention_sums, job, tmp_path / "slice.zarr", {"code": "abc"})
        return load_dataset(tmp_path / "slice.zarr").drop_attrs()

    return run


@pytest.fixture
def advanced(monkeypatch):
    """The layers that the job computed; the first layer in `stop` raises an interrupt."""
    layers, stop, advance = [], set(), Initializations.advance

    def watched(stacks):
        layers.append(stacks.layer + 1)
        if layers[-1] in stop:
            stop.clear()
            raise KeyboardInterrupt
        return advance(stacks)

    monkeypatch.setattr(Initializations, "advance", watched)
    watched.layers, watched.stop = layers, stop
    return watched


def test_a_stopped_job_resumes_after_its_last_finished_layer(command, advanced, tmp_path):
    undisturbed = command()
    advanced.layers.clear()
    advanced.stop.add(3)
    with pytest.raises(KeyboardInterrupt):
        command()
    assert sorted(path.name for path in (tmp_path / "scratch").glob("*.zarr")) == [
        "layer1.zarr", "layer2.zarr", "states2.zarr",
    ]  # fmt: skip
    assert command().identical(undisturbed)
    assert advanced.layers == [1, 2, 3, 3]


def test_a_job_stopped_during_publication_only_publishes_again(command, advanced, monkeypatch):
    undisturbed = command()
    advanced.layers.clear()
    with monkeypatch.context() as patch:
        patch.setattr(jobs, "publish_pieces", lambda *_: (_ for _ in ()).throw(OSError(28, "full")))
        with pytest.raises(OSError, match="full"):
            command()
    assert command().identical(undisturbed)
    assert advanced.layers == [1, 2, 3]


def test_damaged_parts_are_computed_again(command, advanced, tmp_path):
    undisturbed = command()
    advanced.layers.clear()
    advanced.stop.add(3)
    with pytest.raises(KeyboardInterrupt):
        command()
    shutil.rmtree(tmp_path / "scratch" / "layer1.zarr" / SUMS[0])
    assert command().identical(undisturbed)
    assert advanced.layers == [1, 2, 3, 1, 2, 3]
