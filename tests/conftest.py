"""What many tests share: made-up runs and probes for what reads stores (plausible numbers, nobody's), hypothesis."""

from collections.abc import Callable, Sequence
from pathlib import Path
from pydoc_data import topics
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import settings
from lab import lab, process_group  # noqa: F401 - fixtures
from miniature import clean, finished, miniature  # noqa: F401 - fixtures
from plans import make_plan, raw  # noqa: F401 - fixtures

from collapse.config.identity import canonical_json
from collapse.config.root import parse
from collapse.config.run import DataSpec
from collapse.corpus.store import SplitManifest, SplitWriter, TokenManifest, write_manifest
from collapse.recording.statistics import LAYERWISE, METRICS
from collapse.store.dataset import publish_dataset, spec_of
from collapse.store.publish import publish
from collapse.theory.attention import attention_increment
from collapse.theory.depth import depth_recursion
from collapse.theory.ffn import ffn_increment, swiglu_moment

settings.register_profile("shared machine", deadline=None)  # an example takes as long as its neighbours let it
settings.load_profile("shared machine")

FREQ_LOSS = 6.4


def logistic(steps: np.ndarray, middle: float, width: float) -> np.ndarray:
    return 1 / (1 + np.exp(-(steps - middle) / width))


def _tsim(kind: str, steps: np.ndarray) -> np.ndarray:
    """Last-layer token similarity: an early dip to 1, which lasts (`early`) or is repaired; a late collapse or none."""
    n = len(steps)
    level = 0.25
    if kind == "early":
        return level + (1 - level) * logistic(steps, n / 10, n / 100)
    dip = logistic(steps, n / 20, n / 200) * (1 - logistic(steps, n / 4, n / 40))
    late = logistic(steps, 3 * n / 4, n / 100) if kind == "collapsing" else 0.0
    return level + (1 - level) * np.maximum(dip, late)


def _values(kind: str, steps: int, layers: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(7)
    s = np.arange(steps)
    t = np.clip(_tsim(kind, s) + 0.01 * rng.standard_normal(steps) * (_tsim(kind, s) < 0.95), 0, 1)
    depth = (np.arange(2 * layers) + 1).reshape(layers, 2) / (2 * layers)
    collapsed = t[:, None, None]
    diversity = np.clip((1 - collapsed) ** (2 * depth), 1e-9, 1)
    factor = 1 - 0.7 * collapsed * depth
    grad_x = 0.1 * 10 ** (-12 * collapsed**8 * (1 - depth))
    alpha = 1 + collapsed * (1 - depth) * rng.random((steps, layers, 2))
    return {
        "tsim_x": 1 - diversity, "tsim_y": 1 - diversity, "tdiv_x": diversity, "tdiv_y": diversity,
        "residual_rms": 1 / factor, "rms_factor": factor, "rms_factor_mean_token": factor,
        "rms_spread": 0.1 * diversity,
        "grad_x": grad_x, "grad_y": grad_x / alpha, "alpha": alpha, "contraction": alpha * factor,
        "transport": alpha * factor, "param_grad": 10 * grad_x,
        "loss": np.where(t > 0.9, FREQ_LOSS, 5.2 + t) + 0.05 * rng.standard_normal(steps), "lr": 1e-3 * (s + 1),
        "grad_norm": 0.5 + 0 * t, "tokens": 32.0 * (s + 1), "tsim_final": t, "tdiv_final": 1 - t,
        "freq_loss_batch": FREQ_LOSS + 0 * t, "freq_loss_sequence": 4 + 0 * t, "collapse_epsilon": np.sqrt(1 - t),
        "lm_head_norm": np.where(s % 10 == 0, 2.0, np.nan), "loss_floor": np.where(s % 10 == 0, 4.0, np.nan),
        "freq_loss": np.float64(FREQ_LOSS), "validation_loss": np.float64(5.5),
    }  # fmt: skip


def made_up_run(kind: str = "collapsing", steps: int = 400, layers: int = 12, **training: Any) -> xr.Dataset:
    """A run's Dataset, `collapsing` (after a repaired dip), `early` (collapsed from the dip on) or `stable`."""
    config = parse(
        {
            "name": "made-up",
            "corpus": {"source": "sample"},
            "tokens": {"tokenizer": {"kind": "train", "vocab_size": 512}},
            "model": {
                "placement": training.pop("placement", "post"), "layers": layers, "width": 16, "heads": 2,
                "ffn_width": 32, "sequence_length": 16, "vocab_size": 512,
            },
            "training": {"steps": steps, "horizon": 5000, "warmup_steps": 4, "lr": 1e-2, "batch_size": 4} | training,
            "execution": {"micro_batch_size": 2},
            "grid": {"extra": [{}]},
        }
    )  # fmt: skip
    ((run_id, spec),) = config.runs.items()
    values = _values(kind, steps, layers)
    variables = {
        m.name: xr.Variable(
            m.dims,
            np.asarray(values[m.name], np.float32 if m.dims == LAYERWISE else np.float64),
            {"long_name": m.long_name, "units": m.units},
        )
        for m in METRICS
    }
    coords = {"step": np.arange(steps), "layer": np.arange(1, layers + 1), "sublayer": ["attention", "ffn"]}
    provenance = {"code": "0" * 16, "git_commit": "0" * 40, "versions": {"torch": "2.13.0"}, "device": "cpu"}
    attrs = {
        "run_id": run_id,
        "ended": "completed",
        "format": 1,
        "spec": canonical_json(spec.canonical()),
        "provenance": canonical_json(provenance),
    }
    return xr.Dataset(variables, coords, attrs)


@pytest.fixture(scope="session")
def make_run() -> Callable[..., xr.Dataset]:
    return made_up_run


@pytest.fixture(scope="session")
def publish_run() -> Callable[[xr.Dataset, Path], Path]:
    """Publishes a Dataset below a results folder, as training does; gives the run's folder."""

    def published(data: xr.Dataset, results: Path) -> Path:
        folder = results / "runs" / data.attrs["run_id"]
        publish(data, folder)
        return folder

    return published


@pytest.fixture(scope="session")
def byte_tokens(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A token store of real English: Python's own documentation, a token a byte, 256 in the vocabulary."""
    folder = tmp_path_factory.mktemp("tokens")
    documents = [text.encode("ascii", "ignore") for _, text in sorted(topics.topics.items())]
    manifests: dict[str, SplitManifest] = {}
    counts = np.zeros(256)
    for split, texts in (("train", documents[2:]), ("validation", documents[:2])):
        with SplitWriter(folder, split, "uint16") as writer:
            for text in texts:
                writer.append(np.frombuffer(text, np.uint8).astype(np.uint16), 1)
                if split == "train":
                    counts += np.bincount(np.frombuffer(text, np.uint8), minlength=256)
            manifests[split] = writer.finish()
    data = {
        "corpus": {"source": "shards", "files": ["unused.json.gz"]},
        "tokens": {"tokenizer": {"kind": "file", "path": "unused.model"}},
    }
    write_manifest(
        folder,
        TokenManifest(
            spec=DataSpec.model_validate(data), corpus="Python's documentation topics", attributions=[],
            skipped_empty=0, tokenizer_sha256="0" * 64, vocab_size=256, eos_id=0, dtype="uint16",
            train=manifests["train"], validation=manifests["validation"],
            token_frequencies=[int(count) for count in counts],
        ),
    )  # fmt: skip
    return folder


N, WIDTH = 64, 32
"""Shape of the made-up stacks."""


def made_up_increments(
    inputs: Sequence[str] = ("tokens", "gaussian"),
    placements: Sequence[str] = ("post", "pre"),
    variance_scales: Sequence[float] = (1.0, 2.0, 4.0),
    deescalations: Sequence[float] = (0.0, 0.5, 1.0),
    seeds: int = 3,
    layers: int = 6,
    sweep: str = "product",
) -> xr.Dataset:
    """Increments that follow the recursion with 5 % of noise."""
    rng = np.random.default_rng(7)
    axes = {
        "input": list(inputs), "placement": list(placements), "variance_scale": list(variance_scales),
        "deescalation": list(deescalations), "seed": np.arange(seeds),
        "layer": np.arange(1, layers + 1), "sublayer": ["attention", "ffn"],
    }  # fmt: skip
    dims, shape = tuple(axes), tuple(map(len, axes.values()))
    names = ("tsim_x", "tsim_y", "tsim_y_recursion", "mean_square", "amount", "increment_predicted", "rms_spread")
    found = {name: np.full(shape, np.nan) for name in names}
    position = np.unique(np.geomspace(1, N, 12).round())
    rows = {name: np.full((*shape, len(position)), np.nan) for name in ("row_square", "row_square_predicted")}
    for at in np.ndindex(shape[:5]):
        a, scale = deescalations[at[3]], variance_scales[at[2]]
        if sweep == "axes" and at[2] and at[3]:
            continue
        states = depth_recursion(placements[at[1]], N, layers, scale, 0.03, a)
        noise = 1 + 0.05 * rng.standard_normal((2, layers, 2))
        amount = scale**2 / 9 / states.mean_square
        t = np.clip(states.tsim_x * noise[0], 1 / N, 1)
        found["tsim_x"][at], found["tsim_y"][at] = t, np.clip(states.tsim_y * noise[1], 1 / N, 1)
        found["tsim_y_recursion"][at] = states.tsim_y
        found["mean_square"][at], found["amount"][at] = states.mean_square, amount
        found["increment_predicted"][(*at, slice(None), 0)] = attention_increment(amount[:, 0], t[:, 0], N, a)
        found["increment_predicted"][(*at, slice(None), 1)] = ffn_increment(amount[:, 1], t[:, 1], N, scale / 3)
        found["rms_spread"][at] = 0.1
        rows["row_square"][at] = 1 + amount[..., None] * (1 / position + 0.02 * rng.standard_normal(len(position)))
        if placements[at[1]] == "post":
            rows["row_square_predicted"][(*at, slice(None), 0)] = 1 + amount[:, :1] / position
    data = xr.Dataset(
        {name: (dims, values) for name, values in found.items()}
        | {name: ((*dims, "position"), values) for name, values in rows.items()},
        axes | {"position": position},
    )
    data = data.assign(
        increment=data["tsim_y"] - data["tsim_x"], tsim_normed=data["tsim_y"], tdiv_x=1 - data["tsim_x"],
        tdiv_y=1 - data["tsim_y"],
    )  # fmt: skip
    axes_of_spec = {f"{name}s": list(axes[name]) for name in ("input", "placement", "variance_scale", "deescalation")}
    return _as_published(data, layers, axes_of_spec | {"variance_target": "all", "sweep": sweep, "seeds": [0, seeds]})


def made_up_attention(layers: int = 6, seeds: int = 8, blocks: int = 4) -> xr.Dataset:
    """Averages of attention matrices: some per cent, less with depth; no standard errors with one block."""
    rng = np.random.default_rng(7)
    layer = np.arange(1, layers + 1)
    level = 0.027 - 0.015 * (layer - 1) / max(layers - 1, 1)
    error = np.full(layers, 0.001 if blocks > 1 else np.nan)
    single = level * (2 + 0.1 * rng.standard_normal((seeds, layers)))
    values = {
        "prefix_error": level, "prefix_error_se": error, "prefix_bias": 0.8 * level if seeds > 1 else np.nan * level,
        "delta_attn": 2 * level, "delta_attn_se": error, "delta_proj": 1.5 * level, "delta_proj_se": error,
    }  # fmt: skip
    variables: dict[str, Any] = {name: ("layer", array) for name, array in values.items()}
    variables["block_seeds"] = ("block", np.full(blocks, seeds // blocks))
    variables["prefix_error_seed"] = (("seed", "layer"), single)
    coords = {"layer": layer, "seed": np.arange(seeds), "block": np.arange(blocks)}
    return _as_published(xr.Dataset(variables, coords), layers, {"seeds": [0, seeds]})


def made_up_approximations(
    placements: Sequence[str] = ("post", "pre"),
    variance_scales: Sequence[float] = (1.0, 2.0, 4.0),
    seeds: int = 2,
    layers: Sequence[int] = (1, 5, 10, 15, 20, 24),
) -> xr.Dataset:
    """The approximation split, most of it from equal correlation."""
    rng = np.random.default_rng(7)
    shape = (len(placements), len(variance_scales), seeds, len(layers))
    size = 0.01 * np.asarray(variance_scales).reshape(-1, 1, 1) * (1 + 0.1 * rng.standard_normal(shape))
    gaps = {"gap_prefix": 0.2 * size, "gap_ratio": -0.1 * size, "gap_equal": 0.8 * size}
    formula, error = 5 * size, 0.05 * size
    increments = {
        "increment_true": formula + sum(gaps.values()),
        "increment_prefix": formula + gaps["gap_ratio"] + gaps["gap_equal"],
        "increment_ratio": formula + gaps["gap_equal"], "increment_formula": formula,
        "increment_true_se": 2 * error, "increment_prefix_se": 2 * error, "gap_prefix_se": error, "gap_ratio_se": error,
        "tsim_x": np.full(shape, 0.3), "mean_square": np.ones(shape), "amount": np.full(shape, 1 / 9),
    }  # fmt: skip
    dims = ("placement", "variance_scale", "seed", "layer")
    coords = {
        "placement": list(placements), "variance_scale": list(variance_scales), "seed": np.arange(seeds),
        "layer": list(layers),
    }  # fmt: skip
    data = xr.Dataset({name: (dims, values) for name, values in (gaps | increments).items()}, coords)
    settings = {"placements": list(placements), "variance_scales": list(variance_scales), "weight_draws": 64}
    return _as_published(data, max(layers), settings | {"networks": seeds})


def made_up_swiglu_moment(variances: Sequence[float] = (1 / 3, 2 / 3, 4 / 3), points: int = 41) -> xr.Dataset:
    """m(rho) by quadrature, and with noise as Monte Carlo would have it."""
    rho, variance = np.linspace(0, 1, points), np.asarray(variances)
    moment = swiglu_moment(rho, variance[:, None])
    error = np.full(moment.shape, 1e-4)
    dims = ("preact_variance", "rho")
    values = {
        "moment": moment, "moment_sampled": moment + error * np.random.default_rng(7).standard_normal(moment.shape),
        "moment_sampled_se": error,
    }  # fmt: skip
    data = xr.Dataset(
        {name: (dims, array) for name, array in values.items()}, {"preact_variance": variance, "rho": rho}
    )
    return _as_published(data, None, {"preact_variances": list(variances), "seed": 0, "draws": 1_000_000})


def made_up_concentration(widths: Sequence[int] = (64, 128, 256, 512)) -> xr.Dataset:
    """Deviations that fall like 1/sqrt(width), with Gaussian tails."""
    width = np.asarray(widths, float)
    dims = ("branch", "quantity", "width")
    level = np.array([[1.0, 0.2], [0.6, 0.1]])
    deviation = level[..., None] / np.sqrt(width)
    threshold = np.arange(6)
    epsilon = deviation[..., None] * (0.5 + 0.6 * threshold)
    tail = np.exp(-0.5 * (epsilon / deviation[..., None]) ** 2) * (threshold < 5)
    rate = 3 * (epsilon / deviation[..., None]) ** 2
    exponent = np.min(np.log(4 / np.where(tail > 0, tail, np.nan)) / rate, axis=-1, where=tail > 0, initial=np.inf)
    values = {
        "expected": 1 + 0 * deviation, "mean": 1 + 0 * deviation, "mean_se": deviation / 40, "deviation": deviation,
        "deviation_expected": deviation, "exponent": exponent,
    }  # fmt: skip
    data = xr.Dataset(
        {name: (dims, array) for name, array in values.items()}
        | {
            name: ((*dims, "threshold"), array)
            for name, array in (("epsilon", epsilon), ("tail", tail), ("rate", rate))
        },
        {"branch": ["attention", "ffn"], "quantity": ["xi_1", "xi_2"], "width": list(widths), "threshold": threshold},
    ).expand_dims(realization=4)
    return _as_published(data, None, {"widths": list(widths), "seed": 0, "draws": 2000})


PROBES = {
    "increments": made_up_increments,
    "attention": made_up_attention,
    "approximations": made_up_approximations,
    "swiglu_moment": made_up_swiglu_moment,
    "concentration": made_up_concentration,
}


def _as_published(data: xr.Dataset, layers: int | None, spec: dict[str, Any]) -> xr.Dataset:
    model = {"layers": layers, "width": WIDTH, "heads": 2, "ffn_width": 64, "sequence_length": N, "vocab_size": 512}
    whole = spec if layers is None else {"model": model, "window": 0, "input_rms": "unit"} | spec
    return data.assign_attrs(format=1, spec=canonical_json(whole), provenance=canonical_json({"code": "0" * 16}))


@pytest.fixture(scope="session")
def make_probe() -> Callable[..., xr.Dataset]:
    """Made-up datasets of probes and theory by their names: `make_probe("increments", layers=3)`."""

    made: dict[str, xr.Dataset] = {}

    def made_up(name: str, **options: Any) -> xr.Dataset:
        key = repr((name, sorted(options.items())))
        if key not in made:
            made[key] = PROBES[name](**options)
        return made[key].copy(deep=True)

    return made_up


@pytest.fixture(scope="session")
def publish_probe() -> Callable[[xr.Dataset, Path], Path]:
    """Publishes a dataset of probes or theory at a path `name.zarr`, and gives the path."""

    def published(data: xr.Dataset, path: Path) -> Path:
        publish_dataset(data, path, spec_of(data), {"code": "0" * 16})
        return path

    return published
