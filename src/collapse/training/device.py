"""Where, and in which arithmetic, a run trains."""

from dataclasses import dataclass
from typing import Literal

import torch

from collapse.config.execution import ExecutionConfig
from collapse.config.training import TrainingConfig
from collapse.errors import CollapseError


@dataclass(frozen=True)
class Device:
    """The kind of device and the precision of a training."""

    kind: Literal["cpu", "cuda"]
    precision: Literal["fp32", "bf16"]

    @property
    def name(self) -> str:
        """The product name of this machine's device."""
        return torch.cuda.get_device_name() if self.kind == "cuda" else _processor_name()

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
        CollapseError: if it asks for a GPU and there is none.
    """
    available = torch.cuda.is_available()
    if execution.device == "cuda" and not available:
        raise CollapseError(
            "execution.device is 'cuda', but PyTorch sees no GPU on this machine: use 'auto' or 'cpu', or a machine "
            "with a GPU and a CUDA build of PyTorch (in a cluster job that asked for GPUs, 'auto' means 'cuda')"
        )
    kind: Literal["cpu", "cuda"] = "cuda" if available and execution.device != "cpu" else "cpu"
    if training.precision != "auto":
        return Device(kind, training.precision)
    return Device(kind, "bf16" if kind == "cuda" else "fp32")
