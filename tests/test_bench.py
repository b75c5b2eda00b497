"""The bench of training steps, at a shape that tells nothing about speed."""

import math
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from collapse.config.model import ModelConfig
from collapse.model.decoder import Decoder

BENCH = Path(__file__).parents[1] / "bench"
RATIOS = ("recording_overhead", "tokens_per_second_over_hf", "over_hf_same_allocator", "utilisation")
RECIPES = ("retain_grad_overhead", "module_hooks_overhead")


def test_every_ratio_is_said() -> None:
    done = subprocess.run([sys.executable, BENCH / "run.py", "tiny"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    last = dict(re.findall(r"^(\w+) (\S+)$", done.stdout, re.MULTILINE))
    assert set(last) == {f"{name}_tiny" for name in (*RATIOS, *RECIPES)}
    for name, value in last.items():
        assert math.isfinite(float(value)), name
        assert float(value) >= 0, name
    for contestant in (
        "recorded",
        "bare",
        "hugging_face",
        "hugging_face_same_allocator",
        "retain_grad",
        "module_hooks",
        "product",
    ):
        assert re.search(rf"^{contestant}: [\d.]+ ms a step .* GFLOP/s$", done.stdout, re.MULTILINE)


def test_an_unknown_shape_is_a_sentence() -> None:
    done = subprocess.run([sys.executable, BENCH / "run.py", "huge"], capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "invalid choice: 'huge'" in done.stderr and "Traceback" not in done.stderr


@pytest.mark.parametrize("name", ["RetainGrad", "ModuleHooks"])
def test_the_recipes_measure_the_same_model(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Same loss as our decoder's, and all that they claim to record: three numbers for Y and X of every sublayer."""
    monkeypatch.syspath_prepend(str(BENCH))
    import recipes

    config = ModelConfig(
        placement="post", layers=2, width=16, heads=2, ffn_width=24, sequence_length=8, vocab_size=20,
        tie_embeddings=False, embedding_std=1.0,
    )  # fmt: skip
    ids = torch.randint(20, (2, 8), generator=torch.Generator().manual_seed(0))
    model = recipes.Modular(config, 0)
    recipe = getattr(recipes, name)(model)
    logits = model(ids)
    torch.testing.assert_close(logits, Decoder(config, 0)(ids))
    logits.square().sum().backward()
    recipe.collect()
    assert len(recipe.log) == 3 * 2 * 4
    assert all(math.isfinite(value) for value in recipe.log)
