"""The DeepSpeed engine: ZeRO stage 0 or 1 on one process or many, on CPU or GPU."""

import collections
import contextlib
import io
import logging
import math
import os
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.distributed as dist
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from collapse.config.training import ExecutionConfig, TrainingConfig
from collapse.errors import CollapseError
from collapse.model import norm_kernels as kernels
from collapse.model.decoder import Decoder
from collapse.model.norm import compiled
from collapse.training.schedule import learning_rate_factor


@dataclass(frozen=True)
class Device:
    """Where, and in which arithmetic, a run trains."""

    kind: Literal["cpu", "cuda"]
    precision: Literal["fp32", "bf16"]

    @property
    def name(self) -> str:
        """The device as people call it."""
        if self.kind == "cuda":
            return torch.cuda.get_device_name()
        return _processor_name()

    @property
    def torch(self) -> torch.device:
        """The device of this process."""
        return torch.device("cuda", torch.cuda.current_device()) if self.kind == "cuda" else torch.device("cpu")


def _processor_name() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as lines:  # noqa: PTH123 - a kernel interface, not a file
            return next(line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    except (OSError, StopIteration):
        import platform

        return platform.processor() or platform.machine()


def choose_device(training: TrainingConfig, execution: ExecutionConfig) -> Device:
    """The device and precision that a config asks for.

    Raises:
        CollapseError: where it asks for a GPU and there is none.
    """
    available = torch.cuda.is_available()
    if execution.device == "cuda" and not available:
        raise CollapseError(
            "execution.device is 'cuda', but PyTorch sees no GPU on this machine: use 'auto' or 'cpu', or a machine "
            "with a GPU and a CUDA build of PyTorch (a job that has asked a cluster for GPUs takes 'auto' for 'cuda')"
        )
    kind: Literal["cpu", "cuda"] = "cuda" if available and execution.device != "cpu" else "cpu"
    if training.precision != "auto":
        return Device(kind, training.precision)
    return Device(kind, "bf16" if kind == "cuda" else "fp32")


def start_distributed(device: Device, threads: int) -> None:
    """Join the process group; a plain `python` start is a group of one."""
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
    # Training uses no compiled DeepSpeed op; saying so keeps init_distributed from building one for minutes.
    deepspeed.ops.__compatible_ops__ = collections.defaultdict(bool)
    deepspeed.init_distributed("nccl" if device.kind == "cuda" else "gloo", verbose=False)


def parameter_groups(decoder: Decoder, weight_decay: float) -> list[dict[str, Any]]:
    """AdamW's groups: matrices decay, RMSNorm gains do not."""
    parameters = list(decoder.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]


def build_engine(decoder: Decoder, training: TrainingConfig, execution: ExecutionConfig, device: Device) -> Any:
    """A DeepSpeed engine around a decoder, with AdamW, the schedule and clipping of the config.

    Raises:
        CollapseError: where `execution.compile` is wanted and cannot be.
    """
    import deepspeed

    from collapse.training.replicated import ClippedAdamW, ReplicatedEngine

    micro, _ = execution.split(training.sequences_per_step)
    bf16, replicated = device.precision == "bf16", execution.zero_stage == 0
    groups = parameter_groups(decoder, training.weight_decay)
    adam: dict[str, Any] = {"lr": training.lr, "betas": training.betas, "fused": True}
    config: dict[str, Any] = {
        "train_batch_size": training.sequences_per_step,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_clipping": training.clip,
        "zero_optimization": {"stage": 1},
        "bf16": {"enabled": bf16},
        "steps_per_print": 10**9,
    }
    if bf16:
        # Without the second, what was accumulated in fp32 is rounded to bf16 as it is averaged, by one process too.
        config |= {"data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32"}
    optimizer: torch.optim.Optimizer = torch.optim.AdamW(groups, **adam)
    if replicated and not bf16:
        optimizer = ClippedAdamW(groups, training.clip, **adam)
        config |= {"gradient_clipping": 0.0, "zero_optimization": {"stage": 0}}
    decoder.checkpoint_activations = execution.activation_checkpointing
    if execution.compile:
        from collapse.model.compiled import compile_branches, require_compiler

        if device.kind == "cpu":
            require_compiler()
        compile_branches(decoder)
    factor = learning_rate_factor(training)
    options: dict[str, Any] = {
        "model": decoder, "optimizer": optimizer, "lr_scheduler": lambda o: LambdaLR(o, factor), "config": config
    }  # fmt: skip
    with contextlib.redirect_stdout(io.StringIO()):  # the bf16 optimizer prints how much memory is in use
        if replicated and bf16:
            return ReplicatedEngine(**options)
        return deepspeed.initialize(**options)[0]


def global_gradient_norm(engine: Any) -> float:
    """Norm of the averaged gradients of all parameters before clipping, after a step; NaN where it was not finite."""
    norm = float(engine.get_global_grad_norm())
    return norm if 0 <= norm < math.inf else math.nan  # DeepSpeed has -1 or inf then


def sublayer_gradient_sq(decoder: Decoder) -> Tensor:
    """This rank's share of the squared norm of every sublayer's averaged matrix gradients, (2L,), before clipping.

    To be called at an accumulation boundary, between backward and step; shares of all ranks add up to the whole: ZeRO
    splits the averaged gradients among them, and where each has the whole, each answers for an equal part.
    """
    matrices = decoder.sublayer_matrices()
    device = decoder.embedding.weight.device
    owners: list[int] = []
    fragments: list[Tensor] = []
    for index, sublayer in enumerate(matrices):
        for parameter in sublayer:
            fragment = _gradient_fragment(parameter)
            if fragment is not None:
                owners.append(index)
                fragments.append(fragment)
    total = torch.zeros(len(matrices), device=device, dtype=torch.float64)
    if fragments:
        if compiled(*fragments):
            found = [kernels.squared_norm(f.detach().numpy().ravel()) for f in fragments]
            squares = torch.tensor(found, dtype=torch.float64)
        else:
            squares = torch.stack(torch._foreach_norm(fragments, 2, dtype=torch.float64)).square()
        total.index_add_(0, torch.tensor(owners, device=device), squares)
    return total * _splits(matrices[0][0]) / dist.get_world_size()


def _gradient_fragment(parameter: Any) -> Tensor | None:
    """This rank's part of a parameter's averaged gradient; None where it has none."""
    if not hasattr(parameter, "_hp_mapping"):  # no optimizer of DeepSpeed's
        gradient: Tensor | None = parameter.grad
        return gradient
    mapping = parameter._hp_mapping
    if mapping is None:
        return None
    gradient = mapping.get_lp_grad_fragment(parameter._index_in_param_group)
    address = mapping.lp_fragment_address
    if gradient.numel() != address.numel:
        return gradient.reshape(-1).narrow(0, address.start, address.numel)
    return gradient


def _splits(parameter: Any) -> int:
    """Number of processes that averaged gradients are split among: all at stage 1, one at stage 0."""
    return dist.get_world_size(parameter._dp_group) if hasattr(parameter, "_hp_mapping") else 1
