"""How a process joins the group of a training's processes."""

import collections
import logging
import os

import torch

from collapse.training.device import Device


def start_distributed(device: Device, threads: int) -> None:
    """Join the process group; a process that torchrun did not start is a group of its own."""
    for key, value in {
        "RANK": "0",
        "LOCAL_RANK": "0",
        "WORLD_SIZE": "1",
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": "0",
    }.items():
        os.environ.setdefault(key, value)
    os.environ["DS_ACCELERATOR"] = device.kind
    torch.set_num_threads(threads)
    if device.kind == "cuda":
        torch.cuda.set_device(int(os.environ["LOCAL_RANK"]))
    import deepspeed

    logging.getLogger("DeepSpeed").setLevel(logging.ERROR)
    # Training uses no compiled DeepSpeed op. Without this line init_distributed builds one, which takes minutes.
    deepspeed.ops.__compatible_ops__ = collections.defaultdict(bool)
    deepspeed.init_distributed("nccl" if device.kind == "cuda" else "gloo", verbose=False)
