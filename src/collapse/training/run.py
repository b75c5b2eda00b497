"""One run from its tokens to its published store."""

from pathlib import Path

import torch.distributed as dist

from collapse.config.execution import ExecutionConfig
from collapse.config.run import RunSpec
from collapse.corpus.store import TokenStore
from collapse.provenance import provenance
from collapse.store.publish import COMPLETED, dataset, publish
from collapse.training.checkpoint import Identity
from collapse.training.device import Device
from collapse.training.loop import Trainer
from collapse.training.overseer import Overseer


def train_run(
    spec: RunSpec,
    execution: ExecutionConfig,
    device: Device,
    code: str,
    tokens: Path,
    scratch: Path,
    out: Path,
    overseer: Overseer | None = None,
) -> None:
    """Train a run to its end, or resume it, and publish it. Every process of the group must call it.

    Args:
        spec: the run's whole spec.
        execution: how it is executed.
        device: where this process computes.
        code: fingerprint of the training code.
        tokens: folder of the token store.
        scratch: folder of checkpoints and metric history, shared by all processes.
        out: folder that the main process publishes the run to.
        overseer: who is told how the training goes, and may stop it; by default nobody.

    Raises:
        CollapseError: for every foreseeable failure.
        InterruptedRunError: if the overseer stopped the training; a checkpoint is saved.
    """
    store = TokenStore.open(tokens)
    if dist.get_rank() == 0:
        store.verify()
    overseer = overseer or Overseer()
    identity = Identity(spec.run_id, code, store.manifest.train.sha256)
    trainer = Trainer(spec, execution, store, device, identity, scratch, overseer)
    overseer.say(
        f"{spec.run_id}: {trainer.decoder.parameter_count:,} parameters, {spec.training.steps} steps of "
        f"{spec.training.sequences_per_step} x {spec.model.sequence_length} tokens, {device.precision} on "
        f"{dist.get_world_size()} x {device.name}"
    )
    outcome = trainer.train()
    if trainer.history is None:
        return
    run_values = {"freq_loss": trainer.scope_loss, "validation_loss": outcome.validation_loss}
    origin = provenance(
        code,
        tokens_digest=store.manifest.train.sha256,
        device=device.name,
        precision=device.precision,
        processes=execution.processes,
        nodes=execution.nodes,
        threads=execution.threads,
        micro_batch_size=execution.micro_batch_size,
        activation_checkpointing=execution.activation_checkpointing,
    )
    publish(dataset(spec, trainer.history, outcome.steps, run_values, origin, outcome.ended), out)
    if outcome.ended != COMPLETED:
        kept = f"the checkpoint before it is kept: {outcome.checkpoint}"
        kept = "no checkpoint was saved before it" if outcome.checkpoint is None else kept
        overseer.say(f"{spec.run_id}: ended early: {outcome.ended}; {kept}")
