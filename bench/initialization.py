"""Probes at the paper's shape, and the quadrature of m(rho), as ratios within one run.

The last lines are `name value` pairs:
    initialization_measuring_overhead     time of a forward with all increments over the same without (less is better)
    initialization_flops_over_matmul      that forward's FLOP/s over those of a large matrix product (more is better)
    swiglu_moment_thousand_seconds        time of a thousand values of m(rho), each with its own variance
    swiglu_moment_speedup_over_dblquad    time a value of scipy's dblquad over that
"""

import math
import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from scipy import integrate
from scipy.special import expit

from collapse.config.root import load
from collapse.probes.increments import Walk
from collapse.probes.network import Network, attention_branch
from collapse.theory.ffn import swiglu_moment

ROUNDS = 3


def timed(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    work()
    return time.perf_counter() - began


def forward_passes() -> None:
    """A Post-Norm forward of one sequence through all layers, with and without measuring, layers drawn beforehand."""
    config = load(Path(__file__).parents[1] / "config" / "paper.yaml").model
    network = Network(config, 0)
    layers = [network.draw_layer() for _ in range(config.layers)]
    rows = network.input("gaussian", torch.zeros(config.sequence_length, dtype=torch.long), "unit")
    y, normed = network.normalize(rows[None], None)

    def bare() -> None:
        x = normed
        for layer in layers:
            _, x = network.normalize(x, attention_branch(layer.attention, x, network.rotary))
            _, x = network.normalize(x, layer.ffn(x))

    def measured() -> None:
        chunk = Walk("post", 1.0, ["gaussian"], [0.0], y, normed)
        for layer in layers:
            for sublayer in ("attention", "ffn"):
                chunk.advance(network, layer, sublayer)

    square = torch.randn(4096, 4096)
    seconds: dict[str, list[float]] = {"bare": [], "measured": [], "product": []}
    for round_number in range(-1, ROUNDS):
        for name, work in (("bare", bare), ("measured", measured), ("product", lambda: square @ square)):
            took = timed(work)
            if round_number >= 0:  # the first round warms up
                seconds[name].append(took)
        print(f"round {round_number + 1} of {ROUNDS}", file=sys.stderr, flush=True)
    n, d = config.sequence_length, config.width
    linear = 2 * n * d * (4 * d + 3 * config.ffn_width)
    attention = 2 * n * (n + 1) * d  # scores and mixtures over the causal half
    flops = config.layers * (linear + attention)
    for name, values in seconds.items():
        print(f"{name}: {statistics.median(values):.3f} s ({min(values):.3f} to {max(values):.3f})")
    rates = {
        "bare": flops / statistics.median(seconds["bare"]),
        "product": 2 * 4096**3 / statistics.median(seconds["product"]),
    }
    print(f"forward {flops / 1e12:.2f} TFLOP, {rates['bare'] / 1e9:.0f} GFLOP/s; product {rates['product'] / 1e9:.0f}")
    overhead = statistics.median(a / b for a, b in zip(seconds["measured"], seconds["bare"], strict=True))
    print(f"initialization_measuring_overhead {overhead:.3f}")
    print(f"initialization_flops_over_matmul {rates['bare'] / rates['product']:.3f}")


def by_dblquad(rho: float, variance: float) -> float:
    """m(rho) with u = sigma x, v = sigma (rho x + sqrt(1 - rho^2) y), integrated over a square."""
    sigma, other = math.sqrt(variance), math.sqrt(1 - rho**2)

    def integrand(y: float, x: float) -> float:
        u, v = sigma * x, sigma * (rho * x + other * y)
        return float(u * expit(u) * v * expit(v) * math.exp(-(x * x + y * y) / 2) / (2 * math.pi))

    value, _ = integrate.dblquad(integrand, -9, 9, -9, 9, epsabs=1e-11, epsrel=1e-11)
    return float(value)


def quadrature() -> None:
    """A thousand values, and the same way with scipy for a few of them."""
    rng = np.random.default_rng(0)
    rho, variance = rng.uniform(0, 1, 1000), 10 ** rng.uniform(-2, 1, 1000)
    ours = min(timed(lambda: swiglu_moment(rho, variance)) for _ in range(5))
    few = slice(0, 4)
    values: list[float] = []
    theirs = timed(lambda: values.extend(map(by_dblquad, rho[few], variance[few]))) / 4
    error = np.abs(np.array(values) - swiglu_moment(rho[few], variance[few])).max()
    print(f"m(rho): {1e3 * ours:.1f} ms a thousand; dblquad {theirs:.3f} s a value; they differ by {error:.1e} at most")
    print(f"swiglu_moment_thousand_seconds {ours:.4f}")
    print(f"swiglu_moment_speedup_over_dblquad {theirs / (ours / 1000):.3g}")


if __name__ == "__main__":
    torch.set_grad_enabled(False)
    forward_passes()
    quadrature()
