"""The paper's shape on one GPU: speed and utilisation, bare and recorded, and a run that collapses (gpu_check.sh).

Speed: medians of interleaved blocks of micro-batches, an optimizer step behind each block, beside Hugging Face's Llama
where transformers is there. The last lines are `name value` pairs; nan stands for what could not be measured here:
    tokens_per_second_{bare,recorded,hugging_face}   tokens a second (more is better)
    mfu_{bare,recorded,hugging_face}                 model-FLOP/s over the card's peak in dense bf16 (more is better)
    recording_overhead_paper_gpu                     time with everything recorded over the bare time (less is better)
    tokens_per_second_over_hf_gpu                    tokens/s, recorded, over Hugging Face's, bare (more is better)
    activation_memory_over_plan                      peak memory of a micro-batch over what `collapse plan` foresees
    final_loss_minus_frequency_loss                  nats; mean over the last 20 steps of the run
"""

import argparse
import importlib.util
import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import torch

LACKING = [name for name in ("numpy", "pydantic", "yaml", "lazy_loader") if importlib.util.find_spec(name) is None]
if LACKING:
    sys.exit(f"error: {sys.executable} has PyTorch, but lacks {', '.join(LACKING)}: see docs/benchmarks.md")
if importlib.util.find_spec("numba") is None:  # it compiles the loops for CPUs, which a GPU does not use
    sys.modules["numba"] = SimpleNamespace(njit=lambda **_: lambda function: function)  # type: ignore[assignment]

from gpu_run import collapse_run  # noqa: E402
from plain import Plain  # noqa: E402

from collapse.config.execution import ExecutionConfig  # noqa: E402
from collapse.config.model import ModelConfig  # noqa: E402
from collapse.config.root import load  # noqa: E402
from collapse.config.training import TrainingConfig  # noqa: E402
from collapse.model.decoder import Decoder  # noqa: E402
from collapse.model.hugging_face import llama_config  # noqa: E402
from collapse.pipeline.cost import flops, memory  # noqa: E402
from collapse.recording.recorder import Recorder  # noqa: E402
from collapse.upkeep.devices import DEVICES  # noqa: E402

ROUNDS = 9
LEAST_ROUNDS = 3
BLOCK = 8
"""Micro-batches timed together."""
MICRO_BATCH = 4
TINY = {"layers": 16, "width": 32, "heads": 4, "ffn_width": 96, "sequence_length": 32, "vocab_size": 512}
Block = Callable[[], None]


def cross_entropy(logits: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """The training's loss; its own module needs packages that a GPU machine may lack."""
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


class Speed:
    """Models of one shape, trained on random tokens."""

    def __init__(self, model: ModelConfig, training: TrainingConfig, device: torch.device, tiny: bool) -> None:
        self.model, self.training, self.device, self.tiny = model, training, device, tiny
        self.micro = MICRO_BATCH
        self.blocks: dict[str, Block] = {}
        self.seconds: dict[str, list[float]] = {}
        self.activation_bytes = math.nan
        self.ids = torch.randint(model.vocab_size, (self.micro, model.sequence_length + 1), device=device)

    def _place(self, module: Any) -> Any:
        module = module.to(self.device)
        return module if self.tiny else module.bfloat16()

    def _block(self, engine: Plain, logits: Callable[[torch.Tensor], torch.Tensor], recorder: Recorder | None) -> Block:
        def block() -> None:
            for _ in range(BLOCK):
                engine.backward(cross_entropy(logits(self.ids[:, :-1]), self.ids[:, 1:]) / BLOCK)
                if recorder is not None:
                    recorder.collect()
            if recorder is not None:
                recorder.end_step().cpu()
            engine.step(self.training.lr)

        return block

    def decoders(self) -> None:
        """Add our decoder, bare and recorded: the same one."""
        decoder: Decoder = self._place(Decoder(self.model))
        recorder = Recorder(self.model.layers, self.model.width, decoder.placement.x_is_normed, self.device)
        engine = Plain(decoder, self.training)
        self.blocks["bare"] = self._block(engine, decoder, None)
        self.blocks["recorded"] = self._block(engine, lambda ids: decoder(ids, recorder), recorder)

    def hugging_face(self) -> None:
        """Add Hugging Face's Llama."""
        from transformers import LlamaForCausalLM

        llama = self._place(LlamaForCausalLM(llama_config(Decoder(self.model), attn_implementation="sdpa")))
        engine = Plain(llama, self.training)
        self.blocks["hugging_face"] = self._block(engine, lambda ids: llama(ids).logits, None)

    def add(self, contestant: Callable[[], None]) -> None:
        """Add a contestant, and warm it up; a sentence where it cannot be measured here."""
        before = set(self.blocks)
        what = contestant.__name__
        try:
            contestant()
            for name in self.blocks.keys() - before:
                self.timed(name)
        except Exception as error:  # whatever a library of another version may raise
            self.blocks = {name: block for name, block in self.blocks.items() if name in before}
            print(f"{what}: left out: {type(error).__name__}: {(str(error).splitlines() or [''])[0]}")
        else:
            print(f"{what}: warm")

    def timed(self, name: str) -> float:
        """Seconds of a block."""
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        began = time.perf_counter()
        self.blocks[name]()
        if self.device.type == "cuda":
            torch.cuda.synchronize()
        return time.perf_counter() - began

    def measure(self, deadline: float) -> None:
        """Interleaved rounds, until they are done or the time is up."""
        self.seconds = {name: [] for name in self.blocks}
        if self.device.type == "cuda" and "recorded" in self.blocks:
            torch.cuda.reset_peak_memory_stats()
            before = torch.cuda.memory_allocated()
            self.timed("recorded")
            self.activation_bytes = torch.cuda.max_memory_allocated() - before
        for number in range(LEAST_ROUNDS if self.tiny else ROUNDS):
            if number >= LEAST_ROUNDS and time.monotonic() > deadline:
                print(f"time is up after {number} rounds of {ROUNDS}")
                break
            for name in self.blocks:
                self.seconds[name].append(self.timed(name))
        for name, found in self.seconds.items():
            low, middle, high = (1e3 * s / BLOCK for s in (min(found), statistics.median(found), max(found)))
            print(f"{name}: {middle:.1f} ms a micro-batch ({low:.1f} to {high:.1f})", flush=True)

    def report(self, peak: float) -> None:
        """The `name value` lines."""
        tokens = BLOCK * self.micro * self.model.sequence_length
        operations = BLOCK * self.micro * flops(self.model).model
        for name in ("bare", "recorded", "hugging_face"):
            found = self.seconds.get(name)
            seconds = statistics.median(found) if found else math.nan
            print(f"tokens_per_second_{name} {tokens / seconds:.0f}")
            print(f"mfu_{name} {operations / seconds / peak:.3g}")
        print(f"recording_overhead_paper_gpu {self._ratio('recorded', 'bare'):.3f}")
        print(f"tokens_per_second_over_hf_gpu {self._ratio('hugging_face', 'recorded'):.3f}")
        execution = ExecutionConfig(micro_batch_size=self.micro)
        foreseen = memory(self.model, execution, self.micro, "bf16", on_gpu=True)
        print(f"activation_memory_over_plan {self.activation_bytes / (foreseen.activations + foreseen.logits):.3f}")

    def _ratio(self, above: str, below: str) -> float:
        pairs = list(zip(self.seconds.get(above, []), self.seconds.get(below, []), strict=False))
        return statistics.median(a / b for a, b in pairs) if pairs else math.nan


def peak_flops(card: str) -> float:
    """Dense bf16 FLOP/s of a card's data sheet, by the card's name; nan where it is not in the table."""
    known = [device for name, device in DEVICES.items() if name in card.lower() and "pcie" not in card.lower()]
    return known[0].peak["bf16"] if known else math.nan


def main() -> None:
    parser = argparse.ArgumentParser(description="The paper's shape on one GPU.")
    parser.add_argument("--out", type=Path, default=Path("results/gpu_check"), help="folder to write to")
    parser.add_argument("--tiny", action="store_true", help="a tiny shape on the CPU, to try the script out")
    parser.add_argument("--plain", action="store_true", help="train without DeepSpeed, even where it is there")
    parser.add_argument("--seconds", type=float, default=450, help="how long all of it may take")
    options = parser.parse_args()
    deadline = time.monotonic() + options.seconds
    if not options.tiny and not torch.cuda.is_available():
        sys.exit(
            f"error: {sys.executable} has PyTorch {torch.__version__}, which sees no GPU; --tiny tries it on a CPU"
        )
    device = torch.device("cpu" if options.tiny else "cuda")
    card = "CPU" if options.tiny else torch.cuda.get_device_name()
    config = load(Path(__file__).parents[1] / "config" / "paper.yaml")
    model = config.model.model_copy(update=TINY) if options.tiny else config.model
    print(f"{card}, PyTorch {torch.__version__}, {time.strftime('%Y-%m-%d')}")
    peak = peak_flops(card)
    if math.isnan(peak):
        print(f"{card}: not in the table of peaks (src/collapse/upkeep/devices.py), so there is no utilisation")
    torch.manual_seed(0)
    speed = Speed(model, config.training, device, options.tiny)
    for contestant in (speed.decoders, speed.hugging_face):
        speed.add(contestant)
    speed.measure(deadline - 0.55 * options.seconds)
    speed.blocks.clear()
    if device.type == "cuda":
        torch.cuda.empty_cache()
    gap = math.nan
    try:
        gap = collapse_run(config, model, device, options.out / "run", deadline, options.plain, options.tiny)
    except Exception as error:  # the speed was measured, and is to be said
        print(f"the run: {type(error).__name__}: {error}")
    speed.report(peak)
    print(f"final_loss_minus_frequency_loss {gap:.4f}")


if __name__ == "__main__":
    main()
