"""Speed as ratios: medians of interleaved blocks of real DeepSpeed training steps, at three shapes.

    python bench/run.py [laptop] [middle] [paper]      # those named, or all three

The last lines are `name ratio` pairs, for every shape:
    recording_overhead_*         time of a step with everything recorded over the bare step (less is better)
    retain_grad_overhead_*       the same of a usual recipe, over the same bare step (bench/recipes.py)
    module_hooks_overhead_*      the same of another one
    tokens_per_second_over_hf_*  tokens/s, everything recorded, over Hugging Face's Llama, nothing (more is better)
    over_hf_same_allocator_*     the same over a Llama that keeps freed memory, as our training does
    utilisation_*                model-FLOP/s, everything recorded, over those of a large matrix product
"""

import argparse
import gc
import logging
import math
import multiprocessing
import resource
import statistics
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from contextlib import ExitStack, closing
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import numpy as np
import torch
from recipes import Modular, ModuleHooks, RetainGrad

from collapse.config.execution import ExecutionConfig
from collapse.config.root import load
from collapse.config.run import RunSpec
from collapse.corpus.store import SplitManifest, TokenManifest, TokenStore
from collapse.launch.group import start_distributed
from collapse.launch.memory import keep_freed_memory
from collapse.model.decoder import Decoder
from collapse.model.hugging_face import llama_config
from collapse.pipeline.cost import flops
from collapse.training.checkpoint import Identity
from collapse.training.device import Device
from collapse.training.engine import build_engine
from collapse.training.loop import Trainer, batches_of, cross_entropy
from collapse.training.measurements import Pending

DEVICE = Device("cpu", "fp32")
PRODUCT = 3072
"""Rows and columns of the matrices of a large product."""

Block = Callable[[int], None]


@dataclass(frozen=True)
class Shape:
    """What is trained, and how it is timed."""

    threads: int
    batch: int
    block: int
    """Steps timed together; the recorded block ends with a flush to disk, more often than in a real run."""
    rounds: int
    model: dict[str, Any]
    """Over the laptop config's model."""


SHAPES = {
    "laptop": Shape(1, 8, 8, 7, {}),
    "middle": Shape(
        2, 2, 4, 7, {"layers": 12, "width": 256, "ffn_width": 768, "sequence_length": 512, "tie_embeddings": True}
    ),
    # A twelfth of the paper's model: of 48 layers and of 32000 pieces, so that layers and head keep their shares.
    "paper": Shape(
        2, 1, 2, 7,
        {"layers": 4, "width": 512, "ffn_width": 1536, "sequence_length": 2048, "vocab_size": 2667,
         "tie_embeddings": True, "embedding_std": 0.02},
    ),
    "tiny": Shape(
        1, 2, 1, 2, {"layers": 2, "width": 32, "ffn_width": 48, "sequence_length": 16, "vocab_size": 64}
    ),
}  # fmt: skip


def spec_of(shape: Shape) -> RunSpec:
    """The first run of the laptop config, with the shape's model and batch."""
    config = load(Path(__file__).parents[1] / "config" / "config.yaml")
    spec = next(iter(config.runs.values())).canonical()
    spec["model"] |= shape.model
    spec["tokens"]["tokenizer"] = {"kind": "file", "path": "Zipf"}  # of any vocabulary
    spec["training"] |= {"batch_size": shape.batch}
    return RunSpec.model_validate(spec)


def token_store(spec: RunSpec, folder: Path) -> TokenStore:
    """Zipf-distributed ids, as in text; the speed does not depend on which."""
    size = spec.model.vocab_size
    weights = 1 / np.arange(1, size + 1)
    ids = np.random.default_rng(0).choice(size, 500_000, p=weights / weights.sum()).astype(np.uint16)
    split = SplitManifest(tokens=len(ids), documents=1, sha256="0" * 64)
    manifest = TokenManifest(
        spec=spec.data, corpus="Zipf", attributions=[], skipped_empty=0, tokenizer_sha256="0" * 64,
        vocab_size=size, eos_id=0, dtype="uint16", train=split, validation=split,
        token_frequencies=np.bincount(ids, minlength=size).tolist(),
    )  # fmt: skip
    return TokenStore(folder, manifest, ids, ids)


class Steps:
    """Training steps of any model, by the same engine on the same batches."""

    def __init__(self, shape: Shape, folder: Path) -> None:
        self.shape, self.folder, self.spec = shape, folder, spec_of(shape)
        self.store = token_store(self.spec, folder)
        self.batches = batches_of(self.spec, self.store)

    def execution(self) -> ExecutionConfig:
        return ExecutionConfig(device="cpu", threads=self.shape.threads, micro_batch_size=self.shape.batch)

    def block(
        self,
        model: Any,
        logits: Callable[[Any], torch.Tensor] = lambda out: out,
        collect: Callable[[], None] = lambda: None,
    ) -> Block:
        """Steps of a model, given its logits in what it returns and what is to be done behind each backward pass."""
        engine = build_engine(model, self.spec.training, self.execution(), DEVICE)

        def block(start: int) -> None:
            for step in range(start, start + self.shape.block):
                inputs, labels = (torch.from_numpy(a) for a in self.batches.at(step))
                engine.backward(cross_entropy(logits(engine(inputs)), labels))
                collect()
                engine.step()

        return block


def hugging_face(shape: Shape, folder: Path, keeps_memory: bool, orders: Connection) -> None:
    """A process that makes a block of steps of `LlamaForCausalLM`, with nothing recorded, whenever told to."""
    from transformers import LlamaForCausalLM

    quiet()
    if keeps_memory:
        keep_freed_memory()
    start_distributed(DEVICE, threads=shape.threads)
    steps = Steps(shape, folder)
    llama = LlamaForCausalLM(llama_config(Decoder(steps.spec.model, 0), attn_implementation="sdpa"))
    block = steps.block(llama, lambda out: out.logits)
    while (start := orders.recv()) is not None:
        block(start)
        orders.send(start)
    torch.distributed.destroy_process_group()


class Contestants(Steps):
    """A block of steps, from a step on, by name."""

    def __init__(self, shape: Shape, folder: Path, stack: ExitStack) -> None:
        super().__init__(shape, folder)
        self.blocks: dict[str, Block] = {}
        square = torch.randn(PRODUCT, PRODUCT)
        self.ours()
        self.apart("hugging_face", False, stack)
        self.apart("hugging_face_same_allocator", True, stack)
        for name, recipe in (("retain_grad", RetainGrad), ("module_hooks", ModuleHooks)):
            model = Modular(self.spec.model, 0)
            self.blocks[name] = self.block(model, collect=recipe(model).collect)
        self.blocks["product"] = lambda start: [square @ square for _ in range(shape.block)].clear()

    def ours(self) -> None:
        """Our training, recorded and bare."""
        identity = Identity(self.spec.run_id, "bench", "Zipf")
        scratch = self.folder / "recorded"
        trainer = Trainer(self.spec, self.execution(), self.store, DEVICE, identity, scratch)

        def recorded(start: int) -> None:
            pending = Pending(start)
            for step in range(start, start + self.shape.block):
                trainer.step(step, pending)
            trainer.flush(pending)

        self.blocks["recorded"] = recorded
        self.blocks["bare"] = self.block(Decoder(self.spec.model, 0))

    def apart(self, name: str, keeps_memory: bool, stack: ExitStack) -> None:
        """Hugging Face's model, in a process of its own."""
        context = multiprocessing.get_context("spawn")
        orders, theirs = context.Pipe()
        process = context.Process(target=hugging_face, args=(self.shape, self.folder, keeps_memory, theirs))
        process.start()
        theirs.close()
        stack.callback(process.join)
        stack.enter_context(closing(orders))
        stack.callback(orders.send, None)

        def block(start: int) -> None:
            orders.send(start)
            orders.recv()

        self.blocks[name] = block

    def seconds(self) -> dict[str, list[float]]:
        """Of a step, by name, one a round; the first round warms up."""
        found: dict[str, list[float]] = {name: [] for name in self.blocks}
        for number in range(self.shape.rounds + 1):
            for name, block in self.blocks.items():
                began = time.perf_counter()
                block(number * self.shape.block)
                took = (time.perf_counter() - began) / self.shape.block
                if number > 0:
                    found[name].append(took)
            print(f"round {number} of {self.shape.rounds}", file=sys.stderr, flush=True)
        return found


def measure(name: str) -> dict[str, float]:
    """Measure a shape, print its times, and return its ratios by name."""
    shape = SHAPES[name]
    torch.set_num_threads(shape.threads)
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        contestants = Contestants(shape, Path(folder), stack)
        model = contestants.spec.model
        print(
            f"{name}: {model.layers} layers x {model.width} x n {model.sequence_length}, {model.vocab_size} pieces, "
            f"{shape.batch} sequence(s) a step, {shape.threads} thread(s)"
        )
        seconds = contestants.seconds()
    operations = {"product": 2.0 * PRODUCT**3}
    for contestant, values in seconds.items():
        low, middle, high = min(values), statistics.median(values), max(values)
        rate = operations.get(contestant, float(shape.batch * flops(model).model)) / middle
        print(
            f"{contestant}: {1e3 * middle:.1f} ms a step ({1e3 * low:.1f} to {1e3 * high:.1f}), "
            f"{rate / 1e9:.0f} GFLOP/s"
        )

    def ratio(above: str, below: str) -> float:
        pairs = list(zip(seconds.get(above, []), seconds.get(below, []), strict=False))
        return statistics.median(a / b for a, b in pairs) if pairs else math.nan

    share = shape.batch * flops(model).model / operations["product"]
    return {
        f"recording_overhead_{name}": ratio("recorded", "bare"),
        f"retain_grad_overhead_{name}": ratio("retain_grad", "bare"),
        f"module_hooks_overhead_{name}": ratio("module_hooks", "bare"),
        f"tokens_per_second_over_hf_{name}": ratio("hugging_face", "recorded"),
        f"over_hf_same_allocator_{name}": ratio("hugging_face_same_allocator", "recorded"),
        f"utilisation_{name}": share * ratio("product", "recorded"),
    }


def quiet() -> None:
    """Let libraries keep their warnings."""
    warnings.simplefilter("ignore")
    logging.disable(logging.WARNING)


def main() -> None:
    parser = argparse.ArgumentParser(description="The speed of training steps, as ratios.")
    parser.add_argument("shapes", nargs="*", choices=[*SHAPES, []], help="which to measure; all but tiny if left out")
    names = parser.parse_args().shapes or ["laptop", "middle", "paper"]
    quiet()
    keep_freed_memory()
    start_distributed(DEVICE, threads=1)
    ratios: dict[str, float] = {}
    for name in names:
        ratios |= measure(name)
        gc.collect()
    torch.distributed.destroy_process_group()
    print(f"peak memory of this process: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20:.2f} GiB")
    for name, value in ratios.items():
        print(f"{name} {value:.3f}")


if __name__ == "__main__":
    main()
