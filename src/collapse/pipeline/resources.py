"""Memory that jobs are foreseen to take of a machine, for whoever shares machines out."""

from collapse.pipeline.cost import Precision, checkpoint_bytes, memory
from collapse.pipeline.plan import Plan

LIBRARIES_MB = 1200
"""PyTorch, DeepSpeed and the tokens, a process."""
CUDA_MB = 3000
"""What CUDA and its libraries take of the host, a process."""
MARGIN = 1.3
"""What is foreseen is taken this many times: it was seen to be up to 16 % too little (docs/planning.md)."""


def train_memory_mb(plan: Plan, run_id: str, on_gpus: bool = False) -> int:
    """Memory of each of a training's machines, MB: that of its processes, and the checkpoint that one of them gathers.

    Where neither `execution.device` nor the caller says which of them it is, the larger one.
    """
    spec, execution = plan.runs[run_id], plan.execution_of(run_id)
    precision: Precision = "fp32" if spec.training.precision == "auto" else spec.training.precision
    wanted = "cuda" if on_gpus else execution.device
    gathered = checkpoint_bytes(spec.model)
    there = memory(spec.model, execution, spec.training.sequences_per_step, precision).total
    of_a_process = {"cpu": MARGIN * there / 1e6, "cuda": CUDA_MB}
    needed = max(mb for device, mb in of_a_process.items() if device == wanted or wanted == "auto")
    return round(execution.processes_per_node * (LIBRARIES_MB + needed) + MARGIN * gathered / 1e6)
