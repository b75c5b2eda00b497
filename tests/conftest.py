"""What many tests share: made-up runs for what reads stores (plausible numbers, nobody's measurements), hypothesis."""

from collections.abc import Callable
from pathlib import Path
from pydoc_data import topics
from typing import Any

import numpy as np
import pytest
import xarray as xr
from hypothesis import settings

from collapse.config.identity import canonical_json
from collapse.config.root import parse
from collapse.config.run import DataSpec
from collapse.corpus.store import SplitManifest, SplitWriter, TokenManifest, write_manifest
from collapse.recording.statistics import LAYERWISE, METRICS
from collapse.store.publish import publish

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
