from typing import Any

import pytest

from collapse.pipeline.cost import checkpoint_bytes
from collapse.pipeline.resources import CUDA_MB, LIBRARIES_MB, train_memory_mb


def test_memory_of_a_machine(make_plan: Any) -> None:
    def needed(**execution: Any) -> int:
        plan = make_plan(execution=execution)
        return train_memory_mb(plan, next(iter(plan.runs)))

    plan = make_plan()
    gathered = 1.3 * checkpoint_bytes(plan.config.model) / 1e6
    assert needed(device="cuda") == round(LIBRARIES_MB + CUDA_MB + gathered)
    assert LIBRARIES_MB + gathered < needed(device="cpu") < LIBRARIES_MB + gathered + 50
    assert needed(device="auto") == max(needed(device="cuda"), needed(device="cpu"))
    four = needed(device="cuda", processes=4, micro_batch_size=1)
    assert four == pytest.approx(4 * needed(device="cuda"), abs=4 * gathered)
    assert needed(device="cuda", processes=4, nodes=2, micro_batch_size=1) == pytest.approx(four / 2, abs=1)
    model = {"width": 256, "ffn_width": 512, "layers": 8}
    large = make_plan(model=model, execution={"device": "cpu"})
    assert (
        train_memory_mb(large, next(iter(large.runs)))
        > needed(device="cpu") + 3 * checkpoint_bytes(large.config.model) / 1e6
    )
