"""A Post-Norm run without warmup, on a single batch of words: it collapses, and sits on the frequency loss.

With DeepSpeed and the packages of the stores it is the real training command, without them our decoder and recorder
with AdamW in plain PyTorch.
"""

import importlib.util
import json
import re
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from pydoc_data import topics
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from plain import Plain

from collapse.config.execution import ExecutionConfig
from collapse.config.model import ModelConfig
from collapse.config.root import Config
from collapse.config.run import DataSpec, RunSpec
from collapse.corpus.batches import Batches
from collapse.corpus.frequencies import frequency_loss, frequency_loss_per_sequence
from collapse.model.decoder import Decoder
from collapse.recording.recorder import Recorder, means_and_sums, unpack
from collapse.training.learning_rate import learning_rate_factor

STORES = ("zarr", "xarray", "pandas")
COMMAND = ("deepspeed", "numba", "filelock", *STORES)
FIGURES = ("matplotlib", "seaborn", *STORES)
LAST = 20
"""Steps at the end over which the loss is averaged."""
DATA = {
    "corpus": {"source": "shards", "files": ["python-documentation"]},
    "tokens": {"tokenizer": {"kind": "file", "path": "words"}},
}

Ids = NDArray[np.uint16]


def lacking(packages: tuple[str, ...]) -> list[str]:
    """Those that cannot be imported; a stand-in counts as missing."""
    there = {name for name in packages if name in sys.modules and getattr(sys.modules[name], "__spec__", None)}
    return [n for n in packages if n not in there and (n in sys.modules or importlib.util.find_spec(n) is None)]


def words(vocab_size: int) -> Ids:
    """Python's documentation as word numbers, by frequency; the last number is any word that is rarer."""
    text = "\n".join(content for _, content in sorted(topics.topics.items()))
    found = re.findall(r"\w+|[^\w\s]|\n", text)
    number = {word: index for index, (word, _) in enumerate(Counter(found).most_common())}
    return np.minimum([number[word] for word in found], vocab_size - 1).astype(np.uint16)


def spec_of(config: Config, model: ModelConfig, tiny: bool) -> RunSpec:
    """The paper's collapsing run without warmup, on one batch, with fewer sequences a step and fewer steps."""
    shorter = {"steps": 40, "batch_size": 4, "lr": 3e-2} if tiny else {"steps": 400, "batch_size": 16}
    training = config.training.canonical() | {"warmup_steps": 0, "scope": "batch", "horizon": 40000, **shorter}
    record = config.record.canonical() | {"validation_sequences": 0}
    post = model.canonical() | {"placement": "post"}
    return RunSpec.model_validate(DATA | {"model": post, "training": training, "record": record})


def collapse_run(
    config: Config, model: ModelConfig, device: torch.device, out: Path, deadline: float, plain: bool, tiny: bool
) -> float:
    """Train, draw figures 3 to 6, and say how far the final loss is from the frequency loss, nats; nan if it failed."""
    spec = spec_of(config, model, tiny)
    ids = words(spec.model.vocab_size)
    missing = lacking(COMMAND)
    run = out / "runs" / spec.run_id
    if plain or missing:
        why = "as asked" if plain else f"since there is no {', no '.join(missing)}"
        print(f"the run: our decoder and recorder with AdamW in plain PyTorch, {why}")
        loss, floor = plain_run(spec, ids, device, run, deadline)
    else:
        print("the run: the training command, with DeepSpeed")
        if not _command(spec, ids, device, out, run, deadline):
            return float("nan")
        loss, floor = _published(run)
    print(f"the run: loss {loss:.4f}, frequency loss {floor:.4f}, after at most {spec.training.steps} steps")
    draw(config, run)
    return loss - floor


def _store(spec: RunSpec, ids: Ids, folder: Path) -> None:
    """A token store of the words."""
    from collapse.corpus.store import SplitWriter, TokenManifest, write_manifest

    folder.mkdir(parents=True, exist_ok=True)
    splits: dict[str, Any] = {}
    for split in ("train", "validation"):
        with SplitWriter(folder, split, "uint16") as writer:
            writer.append(ids if split == "train" else ids[:0], 1)
            splits[split] = writer.finish()
    size = spec.model.vocab_size
    manifest = TokenManifest(
        spec=DataSpec.model_validate(DATA), corpus="Python's documentation, word by word", attributions=[],
        skipped_empty=0, tokenizer_sha256="0" * 64, vocab_size=size, eos_id=0, dtype="uint16", **splits,
        token_frequencies=np.bincount(ids, minlength=size).tolist(),
    )  # fmt: skip
    write_manifest(folder, manifest)


def _command(spec: RunSpec, ids: Ids, device: torch.device, out: Path, run: Path, deadline: float) -> bool:
    """Train with the training command; whether it did."""
    _store(spec, ids, out / "tokens")
    execution = ExecutionConfig(
        device="cuda" if device.type == "cuda" else "cpu", micro_batch_size=4, flush_every=8, checkpoint_every=10**6
    )
    job = {
        "spec": spec.canonical(), "execution": execution.canonical(), "code": "gpu_check",
        "tokens": str(out / "tokens"), "scratch": str(out / "scratch"), "out": str(run),
    }  # fmt: skip
    command = [sys.executable, "-m", "collapse.launch", json.dumps(job)]
    try:
        return subprocess.run(command, timeout=max(1.0, deadline - time.monotonic() - 20), check=False).returncode == 0
    except subprocess.TimeoutExpired:
        print("the run: the time is up before its end, so nothing was published")
        return False


def _published(run: Path) -> tuple[float, float]:
    from collapse.store.read import load_run

    data = load_run(run)
    return float(data["loss"][-LAST:].mean()), float(data["freq_loss"])


def plain_run(spec: RunSpec, ids: Ids, device: torch.device, run: Path, deadline: float) -> tuple[float, float]:
    """Train without DeepSpeed, and keep what was recorded: as a run's store where zarr and xarray are there, else .npz.

    Returns:
        The mean loss of the last steps, and the frequency loss of the batch, nats.
    """
    model, training = spec.model, spec.training
    decoder: Decoder = Decoder(model, training.seed).to(device)
    engine = Plain(decoder.bfloat16() if device.type == "cuda" else decoder, training)
    recorder = Recorder(model.layers, model.width, decoder.placement.x_is_normed, device)
    factor = learning_rate_factor(training)
    batches = Batches(ids, model.sequence_length, training.batch_size, training.seed, training.scope, model.vocab_size)
    inputs, labels = (torch.split(torch.from_numpy(a).to(device), 4) for a in batches.at(0))
    known = {
        "freq_loss_batch": frequency_loss(batches.at(0)[1]),
        "freq_loss_sequence": frequency_loss_per_sequence(batches.at(0)[1]),
    }
    rows, param_sq, losses, host = [], [], [], []
    for step in range(training.steps):
        total = torch.zeros((), device=device)
        for part, targets in zip(inputs, labels, strict=True):
            logits = decoder(part, recorder)
            loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), targets.flatten()) / len(inputs)
            engine.backward(loss)
            recorder.collect()
            total += loss.detach()
        rows.append(recorder.end_step())
        losses.append(total)
        sublayers = decoder.sublayer_matrices()
        squares = [sum(engine.gradient(matrix).square().sum() for matrix in sublayer) for sublayer in sublayers]
        param_sq.append(torch.stack([torch.as_tensor(square) for square in squares]))
        lr = training.lr * factor(step)
        norm = float(engine.step(lr))
        tokens = (step + 1) * training.batch_size * model.sequence_length
        host.append(known | {"lr": lr, "grad_norm": norm, "tokens": float(tokens)})
        if step % 50 == 0:
            print(f"the run: step {step}/{training.steps}, loss {float(total):.3f}", flush=True)
        if time.monotonic() > deadline - 30:
            print(f"the run: the time is up after {step + 1} steps of {training.steps}")
            break
    means, sums = means_and_sums(torch.stack(rows), model.layers)
    on_host = [part.double().cpu().numpy() for part in (means, sums, torch.stack(param_sq))]
    measured = unpack(on_host[0], on_host[1], on_host[2], model.layers, 1)
    loss_curve = torch.stack(losses).double().cpu().numpy()
    stepwise = measured.stepwise | {name: np.array([row[name] for row in host]) for name in host[0]}
    nothing = np.full(len(rows), np.nan)
    stepwise |= {"loss": loss_curve, "lm_head_norm": nothing, "loss_floor": nothing}
    _keep(spec, run, measured.layerwise, stepwise, known["freq_loss_batch"])
    return float(loss_curve[-LAST:].mean()), known["freq_loss_batch"]


def _keep(spec: RunSpec, run: Path, layerwise: dict[str, Any], stepwise: dict[str, Any], floor: float) -> None:
    run.mkdir(parents=True, exist_ok=True)
    if lacking(STORES):
        np.savez_compressed(run / "metrics.npz", **layerwise, **stepwise, freq_loss=floor)
        return
    from collapse.store.history import History
    from collapse.store.publish import dataset, publish

    steps = range(len(stepwise["loss"]))
    history = History(run.parent / ".history.zarr", steps, spec.model.layers)
    history.write(steps, layerwise, stepwise)
    values = {"freq_loss": floor, "validation_loss": float("nan")}
    ended = "completed" if len(steps) == spec.training.steps else "the time was up"
    publish(dataset(spec, history, len(steps), values, {"code": "gpu_check", "engine": "plain PyTorch"}, ended), run)


def draw(config: Config, run: Path) -> None:
    """Figures 3 to 6 of the run, in `figures/`; a sentence where they cannot be drawn."""
    if missing := lacking(FIGURES):
        print(f"the figures: not drawn, since there is no {', no '.join(missing)}")
        return
    from collapse.figures.command import draw_figure
    from collapse.figures.runs import show

    shown = [show(run, config.analysis)]
    folder = run.parents[1] / "figures"
    of_one_run = ("gradient_contribution", "contraction", "gradient_norms")
    for number, family in enumerate((*of_one_run, "frequency_loss"), start=3):
        inputs = {"run": shown} if family in of_one_run else {"no_warmup": shown, "warmup": []}
        out = folder / f"fig{number:02d}_{family}.png"
        draw_figure(family, inputs, config.figures, number, out)
        print(f"the figures: {out}")
