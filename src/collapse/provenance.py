"""Where numbers come from: code, versions, machine."""

import platform
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

_PACKAGES = ("collapse", "torch", "deepspeed", "numpy", "scipy", "xarray", "zarr", "sentencepiece", "snakemake")


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


def provenance(code: str, **circumstances: Any) -> dict[str, Any]:
    """Plain data for a store's attributes; nothing in it changes from one start to the next on the same machine.

    Args:
        code: Fingerprint of the stage's code.
        circumstances: What else the numbers may depend on, such as device and threads.
    """
    return {
        "code": code,
        "git_commit": _git_commit(),
        "python": platform.python_version(),
        "versions": {name: version(name) for name in _PACKAGES},
        **circumstances,
    }
