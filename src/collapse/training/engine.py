"""The DeepSpeed engine: ZeRO stage 1 on one process or many, on CPU or GPU, and the gradients that it holds."""

import contextlib
import io
import math
from typing import Any

import torch
from torch import Tensor
from torch.optim.lr_scheduler import LambdaLR

from collapse.config.execution import ExecutionConfig
from collapse.config.training import TrainingConfig
from collapse.model.decoder import Decoder
from collapse.training.device import Device
from collapse.training.learning_rate import learning_rate_factor


def parameter_groups(decoder: Decoder, weight_decay: float) -> list[dict[str, Any]]:
    """AdamW's groups: matrices decay, RMSNorm gains do not."""
    parameters = list(decoder.parameters())
    return [
        {"params": [p for p in parameters if p.dim() > 1], "weight_decay": weight_decay},
        {"params": [p for p in parameters if p.dim() == 1], "weight_decay": 0.0},
    ]


def build_engine(decoder: Decoder, training: TrainingConfig, execution: ExecutionConfig, device: Device) -> Any:
    """A DeepSpeed engine around a decoder, with AdamW, the schedule and the clipping of the config."""
    import deepspeed

    micro, _ = execution.split(training.sequences_per_step)
    bf16 = device.precision == "bf16"
    config: dict[str, Any] = {
        "train_batch_size": training.sequences_per_step,
        "train_micro_batch_size_per_gpu": micro,
        "gradient_clipping": training.clip,
        "zero_optimization": {"stage": 1},
        "bf16": {"enabled": bf16},
        "steps_per_print": 10**9,
    }
    if bf16:
        # Without the second option DeepSpeed rounds the fp32 sums to bf16 when it averages them, even for one process.
        config |= {"data_types": {"grad_accum_dtype": "fp32"}, "communication_data_type": "fp32"}
    decoder.checkpoint_activations = execution.activation_checkpointing
    groups = parameter_groups(decoder, training.weight_decay)
    optimizer = torch.optim.AdamW(groups, lr=training.lr, betas=training.betas, fused=True)
    factor = learning_rate_factor(training)
    with contextlib.redirect_stdout(io.StringIO()):  # the bf16 optimizer prints how much memory is in use
        return deepspeed.initialize(
            model=decoder, optimizer=optimizer, lr_scheduler=lambda o: LambdaLR(o, factor), config=config
        )[0]


def global_gradient_norm(engine: Any) -> float:
    """Norm of the averaged gradients of all parameters in the step just made, before clipping; NaN if not finite."""
    norm = float(engine.get_global_grad_norm())
    return norm if 0 <= norm < math.inf else math.nan  # DeepSpeed has -1 or inf then


def sublayer_gradient_sq(decoder: Decoder) -> Tensor:
    """This process's share of the squared norms of the sublayers' averaged matrix gradients, before clipping.

    Call it at an accumulation boundary, between backward and step. ZeRO splits the averaged gradients among the
    processes, so that the shares of all processes add up to the squared norms.

    Returns:
        (2L,), float64.
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
        squares = torch.stack(torch._foreach_norm(fragments, 2, dtype=torch.float64)).square()
        total.index_add_(0, torch.tensor(owners, device=device), squares)
    return total


def _gradient_fragment(parameter: Any) -> Tensor | None:
    """This process's part of a parameter's averaged gradient; None if other processes hold all of it."""
    mapping = parameter._hp_mapping
    if mapping is None:
        return None
    gradient: Tensor = mapping.get_lp_grad_fragment(parameter._index_in_param_group)
    address = mapping.lp_fragment_address
    if gradient.numel() != address.numel:
        return gradient.reshape(-1).narrow(0, address.start, address.numel)
    return gradient
