"""How activations and their gradients are usually recorded, on our model: two recipes, written as one meets them.

Both observe Y of every sublayer and the X behind it: the mean row norm, the token similarity (in closed form; the
n x n Gram matrix would cost far more), and the norm of the gradient, each fetched by `item()`. That is less than our
recorder measures: no token diversity, no RMS factors, no norms of parameter gradients.
"""

from functools import partial
from typing import Any

import torch
from torch import Tensor, nn

from collapse.config.model import ModelConfig
from collapse.model.decoder import Decoder
from collapse.model.norm import residual_norm
from collapse.recording.recorder import Recorder


class Sum(nn.Module):
    """Y."""

    def forward(self, residual: Tensor, branch: Tensor) -> Tensor:
        return residual + branch


class Norm(nn.Module):
    """X, by the same loops or operations as in our decoder."""

    def forward(self, y: Tensor, gain: Tensor, eps: float) -> Tensor:
        return residual_norm(y, None, gain, eps)[1]


class Modular(Decoder):
    """Our Post-Norm decoder with Y and X where a recipe can have them: as outputs of modules."""

    def __init__(self, config: ModelConfig, seed: int) -> None:
        super().__init__(config, seed)
        self.sums = nn.ModuleList(Sum() for _ in self.norms)
        self.units = nn.ModuleList(Norm() for _ in self.norms)
        self.retains = False
        self.retained: list[Tensor] = []

    def hidden(self, ids: Tensor, recorder: Recorder | None = None) -> Tensor:
        table, eps = self.rotary(ids.shape[-1]), self.config.norm_eps
        branches = [b for layer in self.stack for b in (partial(layer.attention, table=table), layer.ffn)]
        x: Tensor = self.units[0](self.embedding(ids), self.norms[0], eps)
        for j, branch in enumerate(branches, 1):
            y = self.sums[j](x, branch(x))
            x = self.units[j](y, self.norms[j], eps)
            if self.retains:
                self.retained += [y, x]
                y.retain_grad()
                x.retain_grad()
        return x


def _observe(rows: Tensor, log: list[float]) -> None:
    row_sq = rows.square().sum(-1)
    similarity = rows.shape[1] * rows.mean(1).square().sum(-1) / row_sq.sum(-1)
    log += [row_sq.sqrt().mean().item(), similarity.mean().item()]


class RetainGrad:
    """Keeps activations, asks autograd to keep their gradients, and measures both behind the backward pass."""

    def __init__(self, model: Modular) -> None:
        self.model = model
        model.retains = True
        self.log: list[float] = []

    @torch.no_grad()
    def collect(self) -> None:
        for tensor in self.model.retained:
            assert tensor.grad is not None
            _observe(tensor, self.log)
            self.log.append(tensor.grad.norm().item())
        self.model.retained.clear()


class ModuleHooks:
    """Measures in forward hooks and full backward hooks, as activations and gradients come by."""

    def __init__(self, model: Modular) -> None:
        self.log: list[float] = []
        for module in (*model.sums[1:], *model.units[1:]):
            module.register_forward_hook(self._forward)
            module.register_full_backward_hook(self._backward)

    @torch.no_grad()
    def _forward(self, module: nn.Module, inputs: Any, output: Tensor) -> None:
        _observe(output, self.log)

    def _backward(self, module: nn.Module, grad_inputs: Any, grad_outputs: tuple[Tensor]) -> None:
        self.log.append(grad_outputs[0].norm().item())

    def collect(self) -> None:
        """Everything is measured already."""
