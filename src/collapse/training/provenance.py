"""Where a run's numbers come from: code, versions, device."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

from collapse.config.training import ExecutionConfig
from collapse.training.engine import Device

_PACKAGES = ("collapse", "torch", "deepspeed", "numpy", "xarray", "zarr", "sentencepiece", "snakemake")


def _git_commit() -> str | None:
    """The commit that the library's source stands at; None outside a checkout."""
    source = Path(__file__).parent
    try:
        answer = subprocess.run(
            ["git", "-C", str(source), "describe", "--always", "--dirty", "--abbrev=40", "--exclude=*"],
            capture_output=True,
            text=True,
            check=True,
            timeout=10,
        )
    except (OSError, subprocess.SubprocessError):
        return None
    return answer.stdout.strip()


def provenance(code: str, tokens_digest: str, execution: ExecutionConfig, device: Device) -> dict[str, Any]:
    """Plain data for a store's attributes; nothing in it changes from one start to the next on the same machine."""
    return {
        "code": code,
        "git_commit": _git_commit(),
        "tokens_digest": tokens_digest,
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        "device": device.name,
        "precision": device.precision,
        "processes": execution.processes,
        "threads": execution.threads,
        "micro_batch_size": execution.micro_batch_size,
    }
