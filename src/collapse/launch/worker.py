"""One process of a training: started by the launcher, alone or as one of several."""

import json
import os
import re
from argparse import SUPPRESS, ArgumentParser, Namespace
from contextlib import ExitStack
from pathlib import Path

import psutil
import torch.distributed as dist

from collapse.config.option import parse_option
from collapse.config.run import RunSpec
from collapse.config.training import ExecutionConfig, TrainingConfig
from collapse.corpus.store import TokenStore
from collapse.errors import CollapseError, run_stage
from collapse.launch.deadline import Deadline
from collapse.launch.locks import PATIENCE_SECONDS, only_one
from collapse.launch.memory import keep_freed_memory
from collapse.launch.progress import Progress
from collapse.pipeline.paths import FINISHED
from collapse.provenance import provenance
from collapse.store.publish import COMPLETED, dataset, publish
from collapse.training.checkpoint import Identity
from collapse.training.engine import choose_device, start_distributed
from collapse.training.loop import InterruptedRunError, Trainer


def arguments() -> ArgumentParser:
    """The options of the training command, for the launcher and its processes."""
    parser = ArgumentParser(prog="collapse.training", description=__doc__)
    parser.add_argument("--spec", required=True, help="the run's whole spec, JSON")
    parser.add_argument("--execution", required=True, help="how it is executed, JSON")
    parser.add_argument("--code", required=True, help="fingerprint of the training code")
    parser.add_argument("--tokens", required=True, type=Path, help="folder of the token store")
    parser.add_argument("--scratch", required=True, type=Path, help="folder of checkpoints and metric history")
    parser.add_argument("--out", required=True, type=Path, help="folder of the finished run")
    parser.add_argument("--time-limit", help="seconds after which to leave with a checkpoint, to be gone on from")
    parser.add_argument("--job-end", type=float, help=SUPPRESS)
    parser.add_argument("--began", type=float, default=psutil.Process().create_time(), help=SUPPRESS)
    return parser


def parse_specs(options: Namespace) -> tuple[RunSpec, ExecutionConfig]:
    """The validated spec and execution.

    Raises:
        CollapseError: naming everything that is wrong with them.
    """
    spec = parse_option(RunSpec, "--spec", options.spec)
    if options.time_limit is not None:
        training = spec.training.canonical() | {"time_limit": options.time_limit}
        limited = parse_option(TrainingConfig, "--time-limit", json.dumps(training))
        spec = spec.model_copy(update={"training": limited})
    return spec, parse_option(ExecutionConfig, "--execution", options.execution)


def deadline(options: Namespace, spec: RunSpec) -> Deadline:
    """When this start of a training has to be over: its time limit, or the end of its Slurm job if that is sooner."""
    limit = spec.training.time_limit
    known = [
        Deadline() if limit is None else Deadline(options.began + limit, f"the time limit of {limit:g} s"),
        Deadline() if options.job_end is None else Deadline(options.job_end, "the end of the Slurm job"),
    ]
    return min(known, key=lambda one: one.at)


def work(options: Namespace) -> None:
    """Train, then publish from the main process.

    Raises:
        CollapseError: for every foreseeable failure.
    """
    spec, execution = parse_specs(options)
    device = choose_device(spec.training, execution)
    store = TokenStore.open(options.tokens)
    if device.kind == "cpu":
        keep_freed_memory()
    start_distributed(device, execution.threads)
    held = ExitStack()
    try:
        if dist.get_rank() == 0:  # which may outlive the launcher, and so has a lock of its own
            patience = PATIENCE_SECONDS if "SLURM_JOB_ID" in os.environ else 0
            held.enter_context(only_one(options.scratch / "writer.lock", patience))
            store.verify()
        identity = Identity(spec.run_id, options.code, store.manifest.train.sha256)
        trainer = Trainer(spec, execution, store, device, identity, options.scratch, deadline(options, spec))
        if trainer.main:
            Progress.say(
                f"{spec.run_id}: {trainer.decoder.parameter_count:,} parameters, {spec.training.steps} steps of "
                f"{spec.training.sequences_per_step} x {spec.model.sequence_length} tokens, {device.precision} on "
                f"{dist.get_world_size()} x {device.name}"
            )
        with trainer.stopping_on_sigterm():
            try:
                outcome = trainer.train()
            except InterruptedRunError as reason:
                raise CollapseError(
                    f"{spec.run_id}: {reason}; a checkpoint is saved, and the same command goes on from it"
                ) from None
            except RuntimeError as error:  # gloo has no class of its own for it
                if not re.search(r"Connection (closed|reset) by peer|Broken pipe", str(error)):
                    raise
                raise CollapseError(
                    f"{spec.run_id}: training process {dist.get_rank()} has lost another one, and cannot go on alone; "
                    "the same command goes on from the last checkpoint"
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
                nodes=execution.nodes,
                threads=execution.threads,
                micro_batch_size=execution.micro_batch_size,
                zero_stage=execution.zero_stage,
                activation_checkpointing=execution.activation_checkpointing,
                compile=execution.compile,
            )
            data = dataset(spec, trainer.history, outcome.steps, run_values, origin, outcome.ended)
            publish(data, options.scratch / FINISHED)
            if outcome.ended != COMPLETED:
                kept = f"the checkpoint before it is kept: {outcome.checkpoint}"
                kept = "no checkpoint had been saved before it" if outcome.checkpoint is None else kept
                Progress.say(f"{spec.run_id}: ended early: {outcome.ended}; {kept}")
    finally:
        held.close()
        dist.destroy_process_group()


if __name__ == "__main__":
    run_stage(lambda: work(arguments().parse_args()))
