"""One process of a training: started by the launcher, alone or as one of several."""

from argparse import ArgumentParser, Namespace
from pathlib import Path

import torch.distributed as dist

from collapse.config.option import parse_option
from collapse.config.run import RunSpec
from collapse.config.training import ExecutionConfig
from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError, run_stage
from collapse.provenance import provenance
from collapse.store.publish import dataset, publish
from collapse.training.checkpoint import Identity
from collapse.training.engine import choose_device, start_distributed
from collapse.training.loop import COMPLETED, InterruptedRunError, Trainer
from collapse.training.progress import Progress


def arguments() -> ArgumentParser:
    """The options of the training command, for the launcher and its processes."""
    parser = ArgumentParser(prog="collapse.training", description=__doc__)
    parser.add_argument("--spec", required=True, help="the run's whole spec, JSON")
    parser.add_argument("--execution", required=True, help="how it is executed, JSON")
    parser.add_argument("--code", required=True, help="fingerprint of the training code")
    parser.add_argument("--tokens", required=True, type=Path, help="folder of the token store")
    parser.add_argument("--scratch", required=True, type=Path, help="folder of checkpoints and metric history")
    parser.add_argument("--out", required=True, type=Path, help="folder of the finished run")
    return parser


def parse_specs(options: Namespace) -> tuple[RunSpec, ExecutionConfig]:
    """The validated spec and execution.

    Raises:
        CollapseError: naming everything that is wrong with them.
    """
    return (
        parse_option(RunSpec, "--spec", options.spec),
        parse_option(ExecutionConfig, "--execution", options.execution),
    )


def work(options: Namespace) -> None:
    """Train, then publish from the main process.

    Raises:
        CollapseError: for every foreseeable failure.
    """
    spec, execution = parse_specs(options)
    device = choose_device(spec.training, execution)
    store = TokenStore.open(options.tokens)
    start_distributed(device, execution.threads)
    try:
        if dist.get_rank() == 0:
            store.verify()
        identity = Identity(spec.run_id, options.code, store.manifest.train.sha256, dist.get_world_size())
        trainer = Trainer(spec, execution, store, device, identity, options.scratch)
        if trainer.main:
            Progress.say(
                f"{spec.run_id}: {trainer.decoder.parameter_count:,} parameters, {spec.training.steps} steps of "
                f"{spec.training.sequences_per_step} x {spec.model.sequence_length} tokens, {device.precision} on "
                f"{dist.get_world_size()} x {device.name}"
            )
        with trainer.stopping_on_sigterm():
            try:
                outcome = trainer.train()
            except InterruptedRunError:
                raise CollapseError(
                    f"{spec.run_id}: asked to stop; a checkpoint is saved, and the same command goes on from it"
                ) from None
        if trainer.history is not None:
            run_values = {
                "freq_loss": trainer.scope_loss,
                "validation_loss": outcome.validation_loss,
            }
            origin = provenance(
                options.code,
                tokens_digest=store.manifest.train.sha256,
                device=device.name,
                precision=device.precision,
                processes=execution.processes,
                threads=execution.threads,
                micro_batch_size=execution.micro_batch_size,
            )
            publish(dataset(spec, trainer.history, outcome.steps, run_values, origin, outcome.ended), options.out)
            if outcome.ended != COMPLETED:
                Progress.say(f"{spec.run_id}: ended early: {outcome.ended}")
    finally:
        dist.destroy_process_group()


if __name__ == "__main__":
    run_stage(lambda: work(arguments().parse_args()))
