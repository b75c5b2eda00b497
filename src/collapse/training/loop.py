"""The training loop of one process: step, record, flush, checkpoint."""

import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from collapse.config.execution import ExecutionConfig
from collapse.config.run import RunSpec
from collapse.corpus.batches import Batches, windows
from collapse.corpus.frequencies import entropy, frequency_loss, frequency_loss_per_sequence
from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError
from collapse.model.decoder import Decoder
from collapse.recording.recorder import Recorder
from collapse.store.history import History
from collapse.store.publish import COMPLETED
from collapse.training import checkpoint
from collapse.training.device import Device
from collapse.training.engine import build_engine, global_gradient_norm, sublayer_gradient_sq
from collapse.training.learning_rate import learning_rate_factor
from collapse.training.measurements import Pending
from collapse.training.overseer import Overseer

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    steps: int
    """Steps made."""
    ended: str
    """"completed", or a sentence that says why it ended early."""
    validation_loss: float
    """Loss of the final parameters on held-out sequences, nats; NaN if it was not measured."""
    checkpoint: Path | None = None
    """The last checkpoint of a run that ended early; None if there is none."""


class InterruptedRunError(Exception):
    """The training stopped before its end and saved a checkpoint; the message is the reason."""


def scope_frequency_loss(spec: RunSpec, store: TokenStore) -> float:
    """Frequency loss of the pooled labels of a run's own scope, nats (Section 4.3)."""
    if spec.training.scope == "stream":
        return entropy(np.asarray(store.manifest.token_frequencies))
    _, labels = batches_of(spec, store).at(0)
    return frequency_loss(labels)


def batches_of(spec: RunSpec, store: TokenStore) -> Batches:
    """The training batches of a run."""
    training, model = spec.training, spec.model
    return Batches(
        store.train,
        model.sequence_length,
        training.sequences_per_step,
        training.seed,
        training.scope,
        model.vocab_size,
    )


def cross_entropy(logits: Tensor, labels: Tensor) -> Tensor:
    """Mean cross-entropy in nats of logits (B, n, v) against labels (B, n)."""
    return functional.cross_entropy(logits.flatten(0, 1).float(), labels.flatten())


def spectral_norm(matrix: Tensor) -> float:
    """||W||_2, from the eigenvalues of the Gram matrix of its short side; NaN if that is not finite."""
    w = matrix.detach().float()
    gram = w.T @ w if w.shape[0] >= w.shape[1] else w @ w.T
    if not torch.isfinite(gram).all():
        return math.nan
    return math.sqrt(float(torch.linalg.eigvalsh(gram.double())[-1]))


class Trainer:
    """One process of one run.

    Args:
        spec: the run's whole spec.
        execution: how it is executed.
        store: the token store.
        device: where this process computes.
        identity: what its checkpoints belong to.
        scratch: folder of checkpoints and metric history, shared by all processes of the run.
        overseer: who is told how the training goes, and may stop it; by default nobody.

    Raises:
        CollapseError: if the token store does not fit the model, or the folder holds checkpoints of another run.
    """

    def __init__(
        self,
        spec: RunSpec,
        execution: ExecutionConfig,
        store: TokenStore,
        device: Device,
        identity: checkpoint.Identity,
        scratch: Path,
        overseer: Overseer | None = None,
    ) -> None:
        self.spec, self.execution, self.store, self.device = spec, execution, store, device
        self.identity, self.checkpoints = identity, scratch / "checkpoints"
        self.overseer = overseer or Overseer()
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        if store.manifest.vocab_size > spec.model.vocab_size:
            raise CollapseError(
                f"{store.folder}: the tokenizer has {store.manifest.vocab_size} pieces, so token ids may lie outside "
                f"the model's vocabulary (model.vocab_size is {spec.model.vocab_size}): set model.vocab_size to the "
                "tokenizer's size"
            )
        checkpoint.seals(self.checkpoints, identity)  # refuses another run's folder before anything is written to it
        self.batches = batches_of(spec, store)
        self.scope_loss = scope_frequency_loss(spec, store)
        self.micro, self.accumulation = execution.split(spec.training.sequences_per_step)
        self.decoder = Decoder(spec.model, spec.training.seed)
        self.engine = build_engine(self.decoder, spec.training, execution, device)
        self.recorder = Recorder(spec.model.layers, spec.model.width, self.decoder.placement.x_is_normed, device.torch)
        self.factor = learning_rate_factor(spec.training)
        self.recorded = frozenset(spec.recorded_steps)
        self.history = History(scratch / "history.zarr", spec.recorded_steps, spec.model.layers) if self.main else None

    @property
    def main(self) -> bool:
        """Whether this is the process that writes."""
        return self.rank == 0

    @property
    def tokens_per_step(self) -> int:
        """Tokens per step, over all processes."""
        return self.spec.training.sequences_per_step * self.spec.model.sequence_length

    def train(self) -> Outcome:
        """Train from the newest whole checkpoint, or from step 0 if there is none.

        Raises:
            InterruptedRunError: if the overseer has a reason to stop; a checkpoint is saved first.
        """
        start, steps = self._resume(), self.spec.training.steps
        self.overseer.begin(start, self.scope_loss)
        pending = Pending(start)
        for step in range(start, steps):
            with self.overseer.step():
                self.step(step, pending)
            done = step + 1
            at_checkpoint = done % self.execution.checkpoint_every == 0 and done < steps
            stopping = self._agree_to_stop() if done < steps else None
            if at_checkpoint or stopping or done == steps or len(pending) >= self.execution.flush_every:
                failure = self.flush(pending)
                if failure is not None:
                    step, how = failure
                    return Outcome(step + 1, how, math.nan, checkpoint.newest(self.checkpoints))
                pending = Pending(done)
                if at_checkpoint or stopping:
                    self._save(done)
            if stopping:
                raise InterruptedRunError(stopping)
        return Outcome(steps, COMPLETED, self._validation_loss())

    def step(self, step: int, pending: Pending) -> None:
        """Make one optimizer step and add its measurements to the pending ones."""
        inputs, labels = self.batches.at(step)
        share = len(inputs) // self.world_size
        mine = slice(self.rank * share, (self.rank + 1) * share)
        recorder = self.recorder if step in self.recorded else None
        known = self._known_beforehand(step, labels, recorder is not None)
        total = torch.zeros((), device=self.device.torch)
        for ids, targets in self._micro_batches(inputs[mine], labels[mine]):
            loss = cross_entropy(self.engine(ids, recorder), targets)
            total += loss.detach()
            self.engine.backward(loss)
            if recorder is not None:
                recorder.collect()
                if self.engine.is_gradient_accumulation_boundary():
                    pending.param_sq.append(sublayer_gradient_sq(self.decoder))
            self.engine.step()
        pending.rows.append(recorder.end_step() if recorder is not None else None)
        pending.losses.append(total / self.accumulation)
        pending.host.append(known | {"grad_norm": global_gradient_norm(self.engine)})

    def _known_beforehand(self, step: int, labels: Array, recorded: bool) -> dict[str, float]:
        """What a step's values are that need no forward and backward pass; all of them in the main process only."""
        known = {"lr": self.spec.training.lr * self.factor(step), "tokens": float((step + 1) * self.tokens_per_step)}
        if not (recorded and self.main):
            return known
        measure_head = step % self.spec.record.floor_every == 0
        return known | {
            "freq_loss_batch": frequency_loss(labels),
            "freq_loss_sequence": frequency_loss_per_sequence(labels),
            "lm_head_norm": spectral_norm(self.decoder.head.weight) if measure_head else math.nan,
        }

    def _micro_batches(self, inputs: Array, labels: Array) -> Iterator[tuple[Tensor, Tensor]]:
        """Inputs and labels, (sequences, n), on the device in micro-batches."""
        for start in range(0, len(inputs), self.micro):
            part = slice(start, start + self.micro)
            ids, targets = (
                torch.from_numpy(a[part]).to(self.device.torch, non_blocking=True) for a in (inputs, labels)
            )
            yield ids, targets

    def flush(self, pending: Pending) -> tuple[int, str] | None:
        """Move pending measurements to disk, up to the first failed step, and report progress.

        A step fails if its loss or the norm of its gradients is not finite; DeepSpeed then makes no update. The failed
        step is the last one recorded, even if the config does not ask for it.

        Returns:
            The failed step and the sentence that says how it failed; None if no step failed.
        """
        layerwise, stepwise = pending.gather(self.spec.model.layers, self.spec.model.sequence_length)
        finite = {name: np.isfinite(stepwise[name]) for name in ("loss", "grad_norm")}
        failed = np.flatnonzero(~(finite["loss"] & finite["grad_norm"]))
        stop = int(failed[0]) + 1 if failed.size else len(pending)
        if self.history is not None:
            kept = [i for i in range(stop) if pending.rows[i] is not None or (failed.size and i == stop - 1)]
            parts = ({name: values[kept] for name, values in group.items()} for group in (layerwise, stepwise))
            self.history.write([pending.start + i for i in kept], *parts)
        tsim = stepwise["tsim_final"][:stop]
        latest = next((float(value) for value in tsim[::-1] if np.isfinite(value)), math.nan)
        self.overseer.progress(pending.start + stop, float(stepwise["loss"][stop - 1]), latest)
        if not failed.size:
            return None
        what = "the gradient norm" if finite["loss"][stop - 1] else "the loss"
        step = pending.start + stop - 1
        return step, f"{what} was not finite at step {step}"

    def _save(self, step: int) -> None:
        with self.overseer.checkpoint():
            digest = self.history.digest(step) if self.history is not None else None
            checkpoint.save(self.engine, self.checkpoints, step, self.identity, digest, self.device.precision)

    def _resume(self) -> int:
        """Load the newest checkpoint that is whole and agrees with the metric history; returns the step to start at."""
        say = self.overseer.say
        chosen: list[checkpoint.Candidate | None] = [None]
        if self.history is not None:
            for candidate in checkpoint.candidates(self.checkpoints, self.identity, say):
                if self.history.digest(candidate.step) == candidate.history:
                    chosen = [candidate]
                    break
                say(f"{self.checkpoints / candidate.tag}: the metric history before it is damaged; falling back")
        dist.broadcast_object_list(chosen, src=0)
        found = chosen[0]
        if found is None:
            return 0
        checkpoint.load(self.engine, self.checkpoints, found)
        say(f"{self.spec.run_id}: resuming from the checkpoint of step {found.step}")
        if found.precision != self.device.precision:
            say(
                f"{self.spec.run_id}: the steps so far used {found.precision}, the steps from here on use "
                f"{self.device.precision}; to keep to one, set training.precision or execution.device"
            )
        return found.step

    def _agree_to_stop(self) -> str | None:
        """The reason to stop now, if any: a reason that one process has stops all of them after the same step."""
        reasons = self.overseer.reasons()
        given = list(reasons.values())
        if self.world_size > 1 and given:
            flags = torch.tensor(given, dtype=torch.float32, device=self.device.torch)
            dist.all_reduce(flags, op=dist.ReduceOp.MAX)
            given = [bool(flag) for flag in flags.tolist()]
        return next((reason for reason, holds in zip(reasons, given, strict=True) if holds), None)

    @torch.no_grad()
    def _validation_loss(self) -> float:
        inputs, labels = windows(
            self.store.validation, self.spec.model.sequence_length, self.spec.record.validation_sequences
        )
        if len(inputs) == 0:
            return math.nan
        losses = [
            float(cross_entropy(self.decoder(ids), targets)) * len(ids)
            for ids, targets in self._micro_batches(inputs, labels)
        ]
        return sum(losses) / len(inputs)
