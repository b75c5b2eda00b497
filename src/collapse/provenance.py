"""Origin of numbers: code, versions, machine."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("collapse", "torch", "deepspeed", "numpy", "scipy", "xarray", "zarr", "sentencepiece", "snakemake")


def _git_commit() -> str | None:
    """The commit of the source folder; None outside a checkout."""
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


def provenance(code: str, **circumstances: Any) -> dict[str, Any]:
    """Plain data for the attributes of a store; it is the same for every start on the same machine.

    Args:
        code: Fingerprint of the stage's code.
        circumstances: Everything else that the numbers may depend on, such as device and threads.
    """
    return {
        "code": code,
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        **circumstances,
    }
