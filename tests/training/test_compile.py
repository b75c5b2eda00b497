"""execution.compile keeps the numbers of a training, within rounding; without a compiler it is refused."""

import runpy
from pathlib import Path

import pytest
import torch
import xarray as xr
from torch import Tensor

from collapse.config.model import ModelConfig
from collapse.config.training import ExecutionConfig, TrainingConfig
from collapse.errors import CollapseError
from collapse.model.compiled import compile_branches, require_compiler
from collapse.model.decoder import Decoder
from collapse.recording.recorder import Recorder
from collapse.store.read import open_run
from collapse.training.device import Device
from collapse.training.engine import build_engine

IN_PLACE = runpy.run_path(str(Path(__file__).with_name("splits.py")))
LAYERS = 12
"""More than eight, the number of compilations of one function after which torch.compile gives up."""
SHAPE = {"layers": LAYERS, "width": 32, "heads": 4, "ffn_width": 48, "sequence_length": 16, "vocab_size": 50}
TRAINING = TrainingConfig(steps=2, warmup_steps=0, lr=1e-3, batch_size=2)


def refused() -> bool:
    """Whether compiling is impossible here; then the refusal is a sentence."""
    try:
        require_compiler()
    except CollapseError as error:
        assert str(error).endswith("install that, or set execution.compile to false")
        return True
    return False


def outcome(model: Decoder, ids: Tensor) -> list[Tensor]:
    """Loss, everything recorded, and all gradients of a step."""
    recorder = Recorder(LAYERS, SHAPE["width"], model.placement.x_is_normed)
    loss = torch.nn.functional.cross_entropy(model(ids, recorder).flatten(0, 1).float(), ids.flatten())
    loss.backward()
    recorder.collect()
    return [loss.detach(), recorder.end_step(), *(p.grad for p in model.parameters())]


@pytest.mark.parametrize(("placement", "again"), [("post", False), ("pre", True)])
def test_compiled_branches_equal_the_plain_ones(placement: str, again: bool) -> None:
    if refused():
        return
    config = ModelConfig.model_validate(SHAPE | {"placement": placement, "tie_embeddings": False})
    plain, compiled = Decoder(config, 1), Decoder(config, 1)
    compile_branches(compiled)
    plain.checkpoint_activations = compiled.checkpoint_activations = again
    ids = torch.randint(50, (2, 16), generator=torch.Generator().manual_seed(0))
    torch._dynamo.utils.counters.clear()
    for wanted, got in zip(outcome(plain, ids), outcome(compiled, ids), strict=True):
        torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5 * float(wanted.abs().max()))
    assert torch._dynamo.utils.counters["stats"]["unique_graphs"] <= 2  # one per branch, whatever the number of layers
    with torch.no_grad():
        assert torch.equal(compiled(ids[:1]), plain(ids[:1]))


def test_half_precision_stays_near_the_plain_branches() -> None:
    if refused():
        return
    config = ModelConfig.model_validate(SHAPE | {"tie_embeddings": False, "placement": "post"})
    plain, compiled = Decoder(config, 1).bfloat16(), Decoder(config, 1).bfloat16()
    compile_branches(compiled)
    ids = torch.randint(50, (2, 16), generator=torch.Generator().manual_seed(0))
    for wanted, got in zip(outcome(plain, ids), outcome(compiled, ids), strict=True):
        assert got.dtype == wanted.dtype
        torch.testing.assert_close(got, wanted, rtol=0, atol=0.05 * float(wanted.abs().max()))


def test_a_training_with_compiled_branches(lab, process_group: None, tmp_path: Path) -> None:
    """Accumulation and validation included; the history agrees, variable by variable."""
    if refused():
        return
    runs, graphs = [], []
    for wanted in (False, True):
        torch._dynamo.utils.counters.clear()
        torch._dynamo.reset()
        execution = lab.execution(compile=wanted, micro_batch_size=4)
        IN_PLACE["train"](lab.spec(steps=4), execution, lab.tokens, tmp_path / str(wanted))
        graphs.append(torch._dynamo.utils.counters["stats"]["unique_graphs"])
        runs.append(open_run(tmp_path / str(wanted)).load())
    xr.testing.assert_allclose(runs[1].drop_attrs(), runs[0].drop_attrs(), rtol=1e-3)
    assert graphs == [0, 2]  # attention and FFN, for an equal number of sequences every time


def test_no_compiler_is_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("torch._inductor.config.cpp.cxx", (None, "/nowhere/c++"))
    model = Decoder(ModelConfig.model_validate(SHAPE | {"placement": "post"}), 0)
    execution = ExecutionConfig(compile=True, micro_batch_size=2)
    with pytest.raises(CollapseError, match=r"execution\.compile needs a C\+\+ compiler .* set execution.compile to"):
        build_engine(model, TRAINING, execution, Device("cpu", "fp32"))


def test_no_headers_is_a_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("torch._inductor.cpp_builder.get_cpp_compiler", lambda: "c++")
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path))
    with pytest.raises(CollapseError, match=r"execution\.compile needs Python's headers"):
        require_compiler()
