"""Speed as ratios: medians of interleaved blocks of real DeepSpeed training steps at the laptop's shape.

The last lines are `name ratio` pairs:
    recording_overhead_laptop         time of a step with everything recorded over the bare step (less is better)
    tokens_per_second_over_hf_laptop  tokens/s, everything recorded, over Hugging Face's Llama, nothing (more is better)
"""

import logging
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import torch

from collapse.config.root import Config, load
from collapse.corpus.store import SplitManifest, TokenManifest, TokenStore
from collapse.model.decoder import Decoder
from collapse.model.hugging_face import llama_config
from collapse.training.checkpoint import Identity
from collapse.training.engine import Device, build_engine, start_distributed
from collapse.training.loop import Trainer, cross_entropy
from collapse.training.measurements import Pending
from collapse.training.progress import Progress

BLOCK = 8
"""Steps timed together; the recorded block ends with a flush to disk, twice as often as in a real run."""
ROUNDS = 9
DEVICE = Device("cpu", "fp32")


def token_store(config: Config, folder: Path) -> TokenStore:
    """Zipf-distributed ids, as in text; the speed does not depend on which."""
    size = config.model.vocab_size
    weights = 1 / np.arange(1, size + 1)
    ids = np.random.default_rng(0).choice(size, 500_000, p=weights / weights.sum()).astype(np.uint16)
    split = SplitManifest(tokens=len(ids), documents=1, sha256="0" * 64)
    manifest = TokenManifest(
        spec=config.data, corpus="Zipf", attributions=[], skipped_empty=0, tokenizer_sha256="0" * 64,
        vocab_size=size, eos_id=0, dtype="uint16", train=split, validation=split,
        token_frequencies=np.bincount(ids, minlength=size).tolist(),
    )  # fmt: skip
    return TokenStore(folder, manifest, ids, ids)


def contestants(config: Config, folder: Path) -> dict[str, Callable[[int], None]]:
    """A block of steps, from a step on, by name."""
    spec = next(iter(config.runs.values()))
    execution = config.execution
    store = token_store(config, folder)
    trainer = Trainer(spec, execution, store, DEVICE, Identity(spec.run_id, "bench", "Zipf"), folder / "recorded")
    progress = Progress("bench", 0, sys.maxsize, trainer.tokens_per_step, 0.0, sys.maxsize, speaks=False)

    def recorded(start: int) -> None:
        pending = Pending(start)
        for step in range(start, start + BLOCK):
            trainer.step(step, pending)
        trainer.flush(pending, progress)

    def plain(engine: Any, logits: Callable[[Any], torch.Tensor]) -> Callable[[int], None]:
        def block(start: int) -> None:
            for step in range(start, start + BLOCK):
                inputs, labels = (torch.from_numpy(a) for a in trainer.batches.at(step))
                engine.backward(cross_entropy(logits(engine(inputs)), labels))
                engine.step()

        return block

    from transformers import LlamaForCausalLM

    bare = build_engine(Decoder(spec.model, 0), spec.training, execution, DEVICE)
    llama = LlamaForCausalLM(llama_config(Decoder(spec.model, 0), attn_implementation="sdpa"))
    hugging_face = build_engine(llama, spec.training, execution, DEVICE)
    return {
        "recorded": recorded,
        "bare": plain(bare, lambda out: out),
        "hugging_face": plain(hugging_face, lambda out: out.logits),
    }


def main() -> None:
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)
    config = load(Path(__file__).parents[1] / "config" / "config.yaml")
    start_distributed(DEVICE, threads=1)
    seconds: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        blocks = contestants(config, Path(folder))
        for round_number in range(-1, ROUNDS):
            for name, block in blocks.items():
                began = time.perf_counter()
                block((round_number + 1) * BLOCK)
                if round_number >= 0:  # the first round warms up
                    seconds.setdefault(name, []).append((time.perf_counter() - began) / BLOCK)
            print(f"round {round_number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    torch.distributed.destroy_process_group()
    for name, values in seconds.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        print(f"{name}: {1e3 * middle:.1f} ms a step ({1e3 * low:.1f} to {1e3 * high:.1f})")
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")

    def ratio(above: str, below: str) -> float:
        return statistics.median(a / b for a, b in zip(seconds[above], seconds[below], strict=True))

    print(f"recording_overhead_laptop {ratio('recorded', 'bare'):.3f}")
    print(f"tokens_per_second_over_hf_laptop {ratio('hugging_face', 'recorded'):.3f}")


if __name__ == "__main__":
    main()
