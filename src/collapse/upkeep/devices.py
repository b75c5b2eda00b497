"""Devices by name, the speed of training on them, and the source of this number."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

from collapse.errors import CollapseError
from collapse.pipeline.cost import Precision

ASSUMED_UTILISATION = 0.4
"""Assumed share of the peak of a GPU that a training reaches, if no measurement exists."""


@dataclass(frozen=True)
class Device:
    """A GPU, or a CPU core."""

    name: str
    kind: Literal["cuda", "cpu"]
    basis: Literal["measured", "assumed"]
    source: str
    """Source of the numbers."""
    measured: Mapping[Precision, float] = field(default_factory=dict)
    """Model-FLOP/s of a training that records everything, by precision."""
    peak: Mapping[Precision, float] = field(default_factory=dict)
    """FLOP/s of dense matrix products according to the vendor's data sheet, by precision."""
    memory: int | None = None
    """Memory of the device in bytes."""

    @property
    def is_gpu(self) -> bool:
        """Whether the device is a GPU."""
        return self.kind == "cuda"

    def rate(self, precision: Precision) -> float | None:
        """Model-FLOP/s of a training, measured or assumed; None if unknown."""
        if precision in self.measured:
            return self.measured[precision]
        return ASSUMED_UTILISATION * self.peak[precision] if precision in self.peak else None


def _gpu(name: str, bf16: float, fp32: float, gigabytes: int, sheet: str) -> Device:
    return Device(
        name=name,
        kind="cuda",
        basis="assumed",
        source=f"{ASSUMED_UTILISATION:.0%} of the peak without sparsity in {sheet}; no measurement on this card",
        peak={"bf16": bf16 * 1e12, "fp32": fp32 * 1e12},
        memory=gigabytes * 10**9,
    )


DEVICES: dict[str, Device] = {
    device.name: device
    for device in (
        Device(
            name="xeon-core",
            kind="cpu",
            basis="measured",
            source="a laptop step of 9.87 GFLOP in 225.9 ms on one virtual core of an Intel Xeon (docs/benchmarks.md)",
            measured={"fp32": 43.7e9},
        ),
        _gpu("a100", 312.0, 19.5, 80, "NVIDIA's A100 80GB data sheet"),
        _gpu("h100", 989.5, 67.0, 80, "NVIDIA's H100 SXM data sheet"),
        _gpu("h200", 989.5, 67.0, 141, "NVIDIA's H200 SXM data sheet"),
    )
}


def device(name: str) -> Device:
    """A device of the table.

    Raises:
        CollapseError: if the table has no such device.
    """
    if name.lower() not in DEVICES:
        raise CollapseError(f"--device {name}: not in the table of devices ({', '.join(DEVICES)})")
    return DEVICES[name.lower()]
