"""Mixed-precision training in plain PyTorch: what DeepSpeed does for one process, where there is no DeepSpeed."""

import torch
from torch import Tensor, nn
from torch.nn.utils import clip_grad_norm_

from collapse.config.training import TrainingConfig


class Plain:
    """AdamW on fp32 weights, gradients accumulated in fp32; the module computes in its own precision.

    Args:
        module: the model, on its device and in its precision.
        training: of AdamW.
    """

    def __init__(self, module: nn.Module, training: TrainingConfig) -> None:
        self.module, self.training = module, training
        self.parameters: list[Tensor] = list(module.parameters())
        self.low = self.parameters[0].dtype != torch.float32
        self.weights = [p.detach().float().requires_grad_() if self.low else p for p in self.parameters]
        groups = [
            {"params": [w for w in self.weights if w.dim() > 1], "weight_decay": training.weight_decay},
            {"params": [w for w in self.weights if w.dim() == 1], "weight_decay": 0.0},
        ]
        self.optimizer = torch.optim.AdamW(groups, lr=training.lr, betas=training.betas, fused=True)

    @torch.no_grad()
    def _accumulate(self) -> None:
        for weight in self.weights:
            if weight.grad is None:
                weight.grad = torch.zeros_like(weight)
        gradients = [p.grad for p in self.parameters if p.grad is not None]
        torch._foreach_add_([w.grad for w in self.weights if w.grad is not None], gradients)
        for parameter in self.parameters:
            parameter.grad = None

    def backward(self, loss: Tensor) -> None:
        """Add a micro-batch's gradients."""
        loss.backward()  # type: ignore[no-untyped-call]
        if self.low:
            self._accumulate()

    def gradient(self, parameter: Tensor) -> Tensor:
        """What has been accumulated of a parameter's gradient, in fp32."""
        index = next(i for i, p in enumerate(self.parameters) if p is parameter)
        gradient = self.weights[index].grad
        assert gradient is not None
        return gradient

    def step(self, lr: float) -> Tensor:
        """Clip and update; the gradients' norm before clipping."""
        norm = clip_grad_norm_(self.weights, self.training.clip)
        for group in self.optimizer.param_groups:
            group["lr"] = lr
        self.optimizer.step()
        self.optimizer.zero_grad(set_to_none=True)
        if self.low:
            with torch.no_grad():
                torch._foreach_copy_(self.parameters, self.weights)
        return norm
