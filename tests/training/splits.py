"""Train runs in this process group, however many processes it has, and publish them.

`train` is for tests in place; as a script, under torchrun, this trains a list of runs with one start of the processes.
"""

import json
import sys
from pathlib import Path

import torch.distributed as dist

from collapse.config.execution import ExecutionConfig
from collapse.config.run import RunSpec
from collapse.corpus.store import TokenStore
from collapse.launch.group import start_distributed
from collapse.training.checkpoint import Identity
from collapse.training.device import Device, choose_device
from collapse.training.loop import Trainer
from collapse.training.run import train_run


def trainer_of(spec: RunSpec, execution: ExecutionConfig, tokens: Path, folder: Path) -> Trainer:
    store = TokenStore.open(tokens)
    identity = Identity(spec.run_id, "code", store.manifest.train.sha256)
    return Trainer(spec, execution, store, choose_device(spec.training, execution), identity, folder / "scratch")


def train(spec: RunSpec, execution: ExecutionConfig, tokens: Path, folder: Path) -> None:
    """Train a run, or resume it, and publish it to `folder`."""
    device = choose_device(spec.training, execution)
    train_run(spec, execution, device, "code", tokens, folder / "scratch", folder)


def main(tokens: str, cases: str) -> None:
    start_distributed(Device("cpu", "fp32"), threads=1)
    for spec, execution, folder in json.loads(cases):
        train(RunSpec.model_validate(spec), ExecutionConfig.model_validate(execution), Path(tokens), Path(folder))
    dist.destroy_process_group()


if __name__ == "__main__":
    main(*sys.argv[1:])
