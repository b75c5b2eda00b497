"""ZeRO stage 0, the optimizer's states whole on every process, with what DeepSpeed has for its other stages only."""

import math
from typing import Any

import torch
import torch.distributed as dist
from deepspeed.runtime.config import DeepSpeedConfig
from deepspeed.runtime.engine import DeepSpeedEngine


class ClippedAdamW(torch.optim.AdamW):
    """AdamW in fp32 that clips by the global gradient norm, keeps the norm, and makes no update where it is not finite.

    DeepSpeed reads both attributes from its own optimizers; at stage 0 it clips, forgets the norm, and updates anyway.
    """

    def __init__(self, parameters: Any, clip: float, **options: Any) -> None:
        super().__init__(parameters, **options)
        self.clip = clip
        self.overflow = False
        self._global_grad_norm = math.nan

    @torch.no_grad()
    def step(self, closure: Any = None) -> None:  # type: ignore[override]
        """Clip and update, given gradients that are averaged over the processes."""
        parameters = [p for group in self.param_groups for p in group["params"]]
        self._global_grad_norm = float(torch.nn.utils.clip_grad_norm_(parameters, self.clip))
        self.overflow = not math.isfinite(self._global_grad_norm)
        if not self.overflow:
            super().step(closure)


class ReplicatedEngine(DeepSpeedEngine):  # type: ignore[misc]
    """An engine for bf16 with fp32 accumulation and master weights, which DeepSpeed has at stage 1 only.

    It is configured as stage 1, and the states are split among one process: gradients are averaged over all as before.
    """

    seq_data_parallel_group: Any

    def __init__(self, config: dict[str, Any], **options: Any) -> None:
        super().__init__(args=None, config=config, config_class=DeepSpeedConfig(config), **options)

    def _configure_bf16_optimizer(self, optimizer: Any) -> Any:
        everyone = self.seq_data_parallel_group
        self.seq_data_parallel_group, _ = dist.new_subgroups(group_size=1)  # type: ignore[no-untyped-call]
        try:
            return super()._configure_bf16_optimizer(optimizer)
        finally:
            self.seq_data_parallel_group = everyone
