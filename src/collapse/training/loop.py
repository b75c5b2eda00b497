"""The training loop of one process: step, record, flush, checkpoint."""

import math
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
import torch.distributed as dist
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from collapse.config.run import RunSpec
from collapse.config.training import ExecutionConfig
from collapse.corpus.batches import Batches, windows
from collapse.corpus.frequencies import entropy, frequency_loss, frequency_loss_per_sequence
from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError
from collapse.launch.deadline import Budget, Deadline
from collapse.launch.progress import Progress
from collapse.model.decoder import Decoder
from collapse.recording.recorder import Recorder
from collapse.store.history import History
from collapse.store.publish import COMPLETED
from collapse.training import checkpoint
from collapse.training.engine import Device, build_engine, global_gradient_norm, sublayer_gradient_sq
from collapse.training.measurements import Pending
from collapse.training.schedule import learning_rate_factor

Array = NDArray[np.int64]


@dataclass(frozen=True)
class Outcome:
    """How a training ended."""

    steps: int
    """Steps recorded."""
    ended: str
    """"completed", or the sentence saying why it ended early."""
    validation_loss: float
    """Loss of the final parameters on held-out sequences, nats; NaN where there are none."""
    checkpoint: Path | None = None
    """The last checkpoint of a run that ended early; None where there is none."""


class InterruptedRunError(Exception):
    """The training left before its end, with a checkpoint of the last step; the message is the reason."""


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
    """||W||_2, from the eigenvalues of the Gram matrix of its short side; NaN where that is not finite."""
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
        deadline: when this start of the training has to be over.

    Raises:
        CollapseError: where the token store does not fit the model, or the folder is another run's.
    """

    def __init__(
        self,
        spec: RunSpec,
        execution: ExecutionConfig,
        store: TokenStore,
        device: Device,
        identity: checkpoint.Identity,
        scratch: Path,
        deadline: Deadline = Deadline(),  # noqa: B008 - immutable
    ) -> None:
        self.spec, self.execution, self.store, self.device = spec, execution, store, device
        self.identity, self.checkpoints = identity, scratch / "checkpoints"
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        if store.manifest.vocab_size > spec.model.vocab_size:
            raise CollapseError(
                f"{store.folder}: the tokenizer has {store.manifest.vocab_size} pieces, so token ids may lie outside "
                f"the model's vocabulary (model.vocab_size is {spec.model.vocab_size}): give the model its tokenizer's "
                "size"
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
        self.stop_requested = threading.Event()
        self.deadline = deadline
        self.budget = Budget(deadline.at, self.decoder.parameter_count)

    @property
    def main(self) -> bool:
        """Whether this is the process that writes and speaks."""
        return self.rank == 0

    def train(self) -> Outcome:
        """Train from the newest whole checkpoint, or from the start.

        Raises:
            InterruptedRunError: where the process was asked to stop (SIGTERM) or its time is up; a checkpoint is saved
                first.
        """
        start = self._resume()
        steps = self.spec.training.steps
        pace = self.execution.log_seconds
        progress = Progress(self.spec.run_id, start, steps, self.tokens_per_step, self.scope_loss, pace, self.main)
        pending = Pending(start)
        for step in range(start, steps):
            with self.budget.step():
                self.step(step, pending)
            done = step + 1
            at_checkpoint = done % self.execution.checkpoint_every == 0 and done < steps
            stopping = self._agree_to_stop() if done < steps else None
            if at_checkpoint or stopping or done == steps or len(pending) >= self.execution.flush_every:
                failure = self.flush(pending, progress)
                if failure is not None:
                    step, how = failure
                    return Outcome(step + 1, how, math.nan, checkpoint.newest(self.checkpoints))
                pending = Pending(done)
                if at_checkpoint or stopping:
                    self._save(done)
            if stopping:
                raise InterruptedRunError(stopping)
        return Outcome(steps, COMPLETED, self._validation_loss())

    @property
    def tokens_per_step(self) -> int:
        """Tokens in a step, over all processes."""
        return self.spec.training.sequences_per_step * self.spec.model.sequence_length

    def step(self, step: int, pending: Pending) -> None:
        """One optimizer step, its measurements added to what is pending."""
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
        """What is known of a step without its forward and backward pass; whole on the main process only."""
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

    def flush(self, pending: Pending, progress: Progress) -> tuple[int, str] | None:
        """Move what is pending to disk, up to the first step that failed; that step and how it did, if any.

        A step has failed where its loss, or the norm of its gradients, is not finite: DeepSpeed makes no update then.
        It is recorded as the last one, whether or not it was to be.
        """
        layerwise, stepwise = pending.gather(self.spec.model.layers, self.spec.model.sequence_length)
        finite = {name: np.isfinite(stepwise[name]) for name in ("loss", "grad_norm")}
        failed = np.flatnonzero(~(finite["loss"] & finite["grad_norm"]))
        stop = int(failed[0]) + 1 if failed.size else len(pending)
        if self.history is not None:
            kept = [i for i in range(stop) if pending.rows[i] is not None or (failed.size and i == stop - 1)]
            parts = ({name: values[kept] for name, values in group.items()} for group in (layerwise, stepwise))
            self.history.write([pending.start + i for i in kept], *parts)
            progress.update(pending.start + stop, float(stepwise["loss"][stop - 1]), stepwise["tsim_final"][:stop])
        if not failed.size:
            return None
        what = "the gradient norm" if finite["loss"][stop - 1] else "the loss"
        step = pending.start + stop - 1
        return step, f"{what} was not finite at step {step}"

    def _save(self, step: int) -> None:
        with self.budget.checkpoint():
            digest = self.history.digest(step) if self.history is not None else None
            checkpoint.save(self.engine, self.checkpoints, step, self.identity, digest, self.device.precision)

    def _resume(self) -> int:
        """Load the newest checkpoint that is whole and agrees with the metric history; the step to go on from."""
        found, complaints = checkpoint.candidates(self.checkpoints, self.identity)
        chosen: list[checkpoint.Candidate | None] = [None]
        if self.history is not None:
            for complaint in complaints:
                Progress.say(complaint)
            for candidate in found:
                if self.history.digest(candidate.step) == candidate.history:
                    chosen = [candidate]
                    break
                Progress.say(
                    f"{self.checkpoints / candidate.tag}: the metric history before it is damaged; falling back"
                )
        dist.broadcast_object_list(chosen, src=0)
        if chosen[0] is None:
            return 0
        checkpoint.load(self.engine, self.checkpoints, chosen[0])
        if self.main:
            Progress.say(f"{self.spec.run_id}: going on from the checkpoint of step {chosen[0].step}")
            if chosen[0].precision != self.device.precision:
                Progress.say(
                    f"{self.spec.run_id}: its steps so far were in {chosen[0].precision}, and those from here on are "
                    f"in {self.device.precision}; set training.precision, or execution.device, to keep to one"
                )
        return chosen[0].step

    def _agree_to_stop(self) -> str | None:
        """Why to stop now, if at all: where a process has a reason all of them stop, after the same step."""
        reasons = {
            "asked to stop": self.stop_requested.is_set(),
            f"{self.deadline.what} is near": self.budget.is_short,
        }
        given = list(reasons.values())
        if self.world_size > 1:
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

    @contextmanager
    def stopping_on_sigterm(self) -> Iterator[None]:
        """Within this context SIGTERM asks the loop to checkpoint and leave; so does SIGUSR1, which srun hands on."""
        before = {
            number: signal.signal(number, lambda *_: self.stop_requested.set())
            for number in (signal.SIGTERM, signal.SIGUSR1)
        }
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
