"""Costs against the counts of torch: parameters of real decoders, and dispatched operations."""

from typing import Any

import pytest
import torch
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from collapse.config.execution import ExecutionConfig
from collapse.config.model import ModelConfig
from collapse.model.decoder import Decoder
from collapse.pipeline.cost import (
    CUDA,
    LIBRARIES,
    block_parameters,
    checkpoint_bytes,
    flops,
    memory,
    parameter_count,
    training_memory,
)

SMALL = ModelConfig(layers=3, width=32, heads=4, ffn_width=80, sequence_length=24, vocab_size=100)
PAPER = ModelConfig(layers=48, width=512, heads=4, ffn_width=1536, sequence_length=2048, vocab_size=32000)


@pytest.mark.parametrize("tied", [True, False])
def test_parameters_agree_with_the_decoder(tied: bool) -> None:
    model = SMALL.model_copy(update={"tie_embeddings": tied})
    assert parameter_count(model) == Decoder(model).parameter_count


def test_the_papers_model_has_its_180_million_parameters() -> None:
    assert parameter_count(PAPER) == 48 * (4 * 512**2 + 3 * 512 * 1536) + 97 * 512 + 32000 * 512 == 180011520
    assert parameter_count(PAPER) / 1e6 == pytest.approx(180, abs=0.1)


@pytest.mark.parametrize("placement", ["post", "pre"])
@pytest.mark.parametrize("checkpointing", [False, True])
@pytest.mark.parametrize("batch", [1, 3])
def test_flops_agree_with_the_counter_of_torch(placement: str, checkpointing: bool, batch: int) -> None:
    """Torch counts the full square of scores: 2n/(n + 1) times the causal half. All other counts are exactly equal.

    It cannot count the operations of a fused kernel, so attention runs as plain matrix products here.
    """
    model = SMALL.model_copy(update={"placement": placement})
    decoder = Decoder(model)
    decoder.checkpoint_activations = checkpointing
    ids = torch.randint(model.vocab_size, (batch, model.sequence_length))
    with sdpa_kernel(SDPBackend.MATH), FlopCounterMode(display=False) as counter:
        decoder(ids).sum().backward()
    cost = flops(model, checkpointing)
    square = 2 * model.sequence_length / (model.sequence_length + 1)
    again = 2 * model.sequence_length * block_parameters(model)
    attention = cost.attention + (cost.attention // 3 if checkpointing else 0)
    expected = cost.matrices + (again if checkpointing else 0) + square * attention
    assert counter.get_total_flops() == batch * expected
    assert cost.recomputed == (again + cost.attention // 3 if checkpointing else 0)
    assert cost.total == cost.matrices + attention + (again if checkpointing else 0)


def test_the_papers_flops() -> None:
    """6 N per token for the matrices, and slightly more than a quarter of it for attention at n = 2048."""
    cost, n = flops(PAPER), PAPER.sequence_length
    assert cost.matrices == 6 * n * (parameter_count(PAPER) - 97 * 512)
    assert cost.attention / cost.matrices == pytest.approx(12 * 48 * 512 * 1024.5 / (6 * 179.96e6), rel=1e-3)


def test_memory_falls_as_processes_share_the_optimizers_states() -> None:
    one, four = (memory(PAPER, ExecutionConfig(micro_batch_size=4, processes=p), 256, "bf16") for p in (1, 4))
    count = parameter_count(PAPER)
    assert one.optimizer == 12 * count
    assert four.optimizer == 3 * count
    assert four.activations == one.activations
    assert one.total - four.total == 9 * count


def test_checkpointed_activations_take_less_memory() -> None:
    kept, again = (
        memory(PAPER, ExecutionConfig(micro_batch_size=4, activation_checkpointing=on), 256, "bf16")
        for on in (False, True)
    )
    assert again.activations < kept.activations / 20


def test_a_short_step_has_small_micro_batches() -> None:
    execution = ExecutionConfig(micro_batch_size=4)
    assert memory(PAPER, execution, 1, "bf16").activations * 4 == memory(PAPER, execution, 256, "bf16").activations


def test_memory_of_a_node(make_plan: Any) -> None:
    def needed(plan: Any) -> int:
        run_id = next(iter(plan.runs))
        return training_memory(plan.runs[run_id], plan.execution(run_id))

    def on(**execution: Any) -> int:
        return needed(make_plan(execution=execution))

    gathered = 1.3 * checkpoint_bytes(make_plan().config.model)
    assert on(device="cuda") == round(LIBRARIES + CUDA + gathered)
    assert LIBRARIES + gathered < on(device="cpu") < LIBRARIES + gathered + 50e6
    assert on(device="auto") == max(on(device="cuda"), on(device="cpu"))
    four = on(device="cuda", processes=4, micro_batch_size=1)
    assert four == pytest.approx(4 * on(device="cuda"), abs=4 * gathered)
    assert on(device="cuda", processes=4, nodes=2, micro_batch_size=1) == pytest.approx(four / 2, abs=1e6)
    large = make_plan(model={"width": 256, "ffn_width": 512, "layers": 8}, execution={"device": "cpu"})
    assert needed(large) > on(device="cpu") + 3 * checkpoint_bytes(large.config.model)
