"""Claims on made-up datasets: every one can hold, can fail, and is undecided without its data."""

import json
import math
from collections.abc import Callable
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

from collapse.checks.statements import RELATIONS
from collapse.claims.catalogue import CLAIMS, DATASETS
from collapse.claims.checks import TEXTS
from collapse.claims.judging import Claim, assess
from collapse.claims.table import ClaimRow, read_claims, write_claims
from collapse.config.identity import canonical_json
from collapse.theory.depth import depth_recursion
from collapse.theory.ffn import swiglu_moment

SEEDS, LAYERS, N = 4, 12, 64
SCALES, REMOVED = [1.0, 2.0, 4.0], [0.0, 0.5, 1.0]
SUBLAYERS = ["attention", "ffn"]
BY_ID = {claim.id: claim for claim in CLAIMS}
Datasets = dict[str, xr.Dataset]


def made_up_increments() -> xr.Dataset:
    """The recursion of the closed forms, with measured increments a tenth larger and a little noise between seeds."""
    rng = np.random.default_rng(3)
    dims = ("input", "placement", "variance_scale", "deescalation", "seed", "layer", "sublayer")
    shape = (1, 2, 3, 3, SEEDS, LAYERS, 2)
    x, y, square = (np.empty(shape) for _ in range(3))
    for p, placement in enumerate(("post", "pre")):
        for v, scale in enumerate(SCALES):
            for k, a in enumerate(REMOVED):
                found = depth_recursion(placement, N, LAYERS, scale, 0.2, a)
                x[0, p, v, k], y[0, p, v, k], square[0, p, v, k] = found.tsim_x, found.tsim_y, found.mean_square
    noise = 1 + 1e-3 * rng.standard_normal(shape)
    values = {
        "tsim_x": x, "tsim_y": y, "tsim_normed": y.copy(), "increment_predicted": y - x,
        "increment": 1.1 * (y - x) * noise,
        "amount": np.array(SCALES)[:, None, None, None, None] ** 2 / 9 / square,
        "rms_spread": np.full(shape, 0.01),
    }  # fmt: skip
    position = np.array([1.0, 2.0, 8.0, 40.0])
    rows = np.ones((*shape, 4)) * 1.01
    rows[..., 0, :] = 1.05 + 0.06 / position
    return xr.Dataset(
        {name: (dims, value) for name, value in values.items()}
        | {
            "row_square": ((*dims, "position"), rows + 1e-4 * rng.standard_normal(rows.shape)),
            "row_square_predicted": ((*dims, "position"), rows),
        },
        {
            "input": ["tokens"], "placement": ["post", "pre"], "variance_scale": SCALES, "deescalation": REMOVED,
            "seed": np.arange(SEEDS), "layer": np.arange(1, LAYERS + 1), "sublayer": SUBLAYERS, "position": position,
        },
    )  # fmt: skip


def made_up_attention() -> xr.Dataset:
    """At the paper's shape; four fifths of the squared prefix error are noise of its 32 initializations."""
    error = np.linspace(0.027, 0.013, 48) + 0.001
    noise = np.array([[-1], [1], [1], [-1]]) * 1e-5
    bias_sq, scatter_sq = 0.2 * error**2, 32 * 0.8 * error**2
    data = {"prefix_error": error, "delta_attn": error / 2, "delta_proj": error / 3}
    without = data | {"prefix_error": np.sqrt(bias_sq + scatter_sq / 24)}
    variables = {name: ("layer", value) for name, value in data.items()}
    variables |= {f"{name}_without": (("block", "layer"), value + noise) for name, value in without.items()}
    single = np.broadcast_to(np.sqrt(bias_sq + scatter_sq), (32, 48)).copy()
    model = {"layers": 48, "width": 512, "heads": 4, "sequence_length": 2048, "ffn_width": 1536}
    return xr.Dataset(
        variables | {"block_seeds": ("block", [8, 8, 8, 8]), "prefix_error_seed": (("seed", "layer"), single)},
        {"layer": np.arange(1, 49), "block": [0, 8, 16, 24], "seed": np.arange(32)},
        {"spec": canonical_json({"model": model, "seeds": [0, 32]})},
    )


def drawn_attention(seeds: int, per_block: int, bias: float, scatter: float) -> xr.Dataset:
    """Prefix errors of mean matrices (300 entries, 5 layers) that are really drawn, and averaged as the probe does."""
    single = np.random.default_rng(seeds).normal(0, scatter / 300**0.5, (seeds, 5, 300))
    single[..., 0] += bias
    blocks = [range(first, min(first + per_block, seeds)) for first in range(0, seeds, per_block)]
    left = [[i for i in range(seeds) if i not in block] for block in blocks]
    errors = [np.linalg.norm(single[rows].mean(0), axis=-1) if rows else np.full(5, np.nan) for rows in left]
    return xr.Dataset(
        {
            "prefix_error": ("layer", np.linalg.norm(single.mean(0), axis=-1)),
            "prefix_error_seed": (("seed", "layer"), np.linalg.norm(single, axis=-1)),
            "prefix_error_without": (("block", "layer"), errors),
            "block_seeds": ("block", [len(block) for block in blocks]),
        },
        attrs={"spec": canonical_json({"seeds": [0, seeds]})},
    )


def made_up_approximations() -> xr.Dataset:
    dims, shape = ("placement", "variance_scale", "seed", "layer"), (2, 3, 3, 4)
    noise = 1 + 1e-3 * np.random.default_rng(5).standard_normal(shape)
    gaps = {"gap_prefix": 1e-3 * noise, "gap_ratio": -1e-5 * noise, "gap_equal": -4e-4 * noise}
    gaps |= {"gap_prefix_se": np.full(shape, 1e-6), "gap_ratio_se": np.full(shape, 1e-6)}
    coords = {"placement": ["post", "pre"], "variance_scale": SCALES, "seed": [0, 1, 2], "layer": [1, 2, 4, 6]}
    return xr.Dataset({name: (dims, value) for name, value in gaps.items()}, coords)


def made_up_statements() -> xr.Dataset:
    measured = np.ones((len(RELATIONS), 3))
    stated = measured.copy()
    for i, relation in enumerate(RELATIONS.values()):
        stated[i] += {"equals": 0.0, "at most": 0.1, "at least": -0.1}[relation]
    dims = ("statement", "trial")
    values = {"measured": measured, "stated": stated, "scale": np.ones_like(measured)}
    return xr.Dataset({name: (dims, value) for name, value in values.items()}, {"statement": list(RELATIONS)})


def made_up_moment() -> xr.Dataset:
    rho, variance = np.linspace(0, 1, 41), np.array(SCALES) / 3
    moment = swiglu_moment(rho, variance[:, None])
    dims = ("preact_variance", "rho")
    values = {"moment": moment, "moment_sampled": moment * 1.001, "moment_sampled_se": moment * 1e-3}
    spec = canonical_json({"draws": 1_000_000})
    coords = {"preact_variance": variance, "rho": rho}
    return xr.Dataset({k: (dims, v) for k, v in values.items()}, coords, {"spec": spec})


def made_up_concentration() -> xr.Dataset:
    dims, width = ("branch", "quantity", "width", "realization"), np.array([64, 128, 256])
    shape = (2, 2, 3, 4)
    scatter = 1 + 0.02 * np.random.default_rng(7).standard_normal(shape)
    expected = 1.1 * scatter
    deviation = width[:, None] ** -0.5 * scatter
    values = {
        "expected": expected, "mean": expected + deviation / 50, "mean_se": deviation / 20, "deviation": deviation,
        "exponent": 0.3 * scatter, "premise": expected,
    }  # fmt: skip
    coords = {"branch": ["attention", "ffn"], "quantity": ["xi_1", "xi_2"], "width": width, "realization": range(4)}
    spec = canonical_json({"widths": width.tolist(), "draws": 1600, "seed": 0})
    return xr.Dataset({k: (dims, v) for k, v in values.items()}, coords, {"spec": spec})


@cache
def _made_up() -> Datasets:
    return {
        "increments": made_up_increments(),
        "attention": made_up_attention(),
        "approximations": made_up_approximations(),
        "collapsed_states": made_up_statements(),
        "swiglu_moment": made_up_moment(),
        "concentration": made_up_concentration(),
    }


def made_up() -> Datasets:
    return {name: data.copy(deep=True) for name, data in _made_up().items()}


def judged(claim: str, datasets: Datasets) -> ClaimRow:
    (row,) = assess([BY_ID[claim]], datasets)
    return row


def scaled(dataset: str, variable: str, factor: float, **at: object) -> Callable[[Datasets], None]:
    """Multiplies a variable at some coordinates."""

    def change(datasets: Datasets) -> None:
        values = datasets[dataset][variable]
        values.loc[at] = values.loc[at] * factor

    return change


def put(dataset: str, variable: str, value: float, **at: object) -> Callable[[Datasets], None]:
    """Sets a variable at some coordinates."""

    def change(datasets: Datasets) -> None:
        datasets[dataset][variable].loc[at] = value

    return change


def reordered(dataset: str, coordinate: str) -> Callable[[Datasets], None]:
    """Attaches the values of a coordinate to each other's data."""

    def change(datasets: Datasets) -> None:
        datasets[dataset] = datasets[dataset].assign_coords({coordinate: datasets[dataset][coordinate].values[::-1]})

    return change


def peak_moved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("collapse.claims.theory.f1", lambda t, n: -((t - 0.5) ** 2))


FAILS: dict[str, Callable[[Datasets], None]] = {
    "attention-increment-positive": put(
        "increments", "increment", -0.01, layer=5, placement="pre", sublayer="attention"
    ),
    "attention-formula-rank": scaled("increments", "increment_predicted", -1, sublayer="attention"),
    "attention-formula-scale": scaled("increments", "increment", 3, sublayer="attention", variance_scale=4.0),
    "attention-increases-with-amount": reordered("increments", "variance_scale"),
    "post-above-pre": reordered("increments", "placement"),
    "amount-falls-pre": reordered("increments", "placement"),
    "amount-rate-pre": scaled("increments", "amount", 0.5, placement="pre", layer=[2, 3]),
    "post-saturates": put("increments", "increment", 0.2, sublayer="attention", placement="post", layer=LAYERS),
    "post-saturates-more": reordered("increments", "placement"),
    "deescalation-vanishes": put("increments", "increment", 0.05, sublayer="attention", deescalation=1.0),
    "amount-constant-post": scaled("increments", "amount", 1.01, layer=3),
    "deescalation-monotone": reordered("increments", "deescalation"),
    "deescalation-one-step": reordered("increments", "deescalation"),
    "deescalation-removes-growth": scaled("increments", "tsim_y", 3, deescalation=1.0, layer=LAYERS),
    "ffn-damps": scaled("increments", "increment", -1, sublayer="ffn"),
    "ffn-damping-smaller": scaled("increments", "increment", 30, sublayer="ffn"),
    "ffn-formula-scale": scaled("increments", "increment", 0.3, sublayer="ffn", placement="pre"),
    "ffn-bound-predicted": scaled("increments", "increment_predicted", 30, sublayer="ffn", layer=2),
    "ffn-bound-measured": scaled("increments", "increment", 30, sublayer="ffn", layer=2),
    "ffn-row-norms": scaled("increments", "row_square", 1.05, sublayer="ffn", position=8.0),
    "attention-row-norms": scaled("increments", "row_square", 1.04, sublayer="attention"),
    "attention-row-norms-fall": put("increments", "row_square", 1.0, sublayer="attention", position=1.0),
    "rms-bounds": scaled("increments", "tsim_normed", 0.5, layer=1),
    "swiglu-coefficient": scaled("swiglu_moment", "moment", 1.1),
    "swiglu-moment-zero": scaled("swiglu_moment", "moment", 1.1),
    "swiglu-moment-one": scaled("swiglu_moment", "moment", 1.1),
    "swiglu-moment-increases": put("swiglu_moment", "moment", 0.5, rho=0.5),
    "swiglu-moment-sampled": put("swiglu_moment", "moment_sampled", 0.5, rho=0.5),
    "concentration-rate": scaled("concentration", "deviation", 3, width=256),
    "concentration-constant": scaled("concentration", "exponent", 0.4, width=256),
    "concentration-centers": scaled("concentration", "mean", 1.2, branch="ffn"),
    "concentration-premise": scaled("concentration", "premise", 2, branch="ffn", width=64),
    "prefix-error-first": scaled("attention", "prefix_error", 1.2),
    "prefix-error-last": put("attention", "prefix_error", 0.02, layer=48),
    "prefix-error-mean": scaled("attention", "prefix_error", 1.2),
    "prefix-error-falls": put("attention", "prefix_error", 0.03, layer=48),
    "prefix-error-small": put("attention", "prefix_error", 0.2, layer=20),
    "prefix-error-noise": scaled("attention", "prefix_error_seed", 0.25),
    "proxy-attention-small": put("attention", "delta_attn", 0.2, layer=20),
    "proxy-projected-small": put("attention", "delta_proj", 0.2, layer=20),
    "approximation-split-prefix": scaled("approximations", "gap_prefix", 0.1),
    "approximation-split-ratio": scaled("approximations", "gap_ratio", 1),
    "approximation-split-equal": scaled("approximations", "gap_equal", 1),
    "ratio-of-expectations-accurate": scaled("approximations", "gap_ratio", 100),
}
"""What makes a claim fail."""
HOLDS = {
    "approximation-split-ratio": scaled("approximations", "gap_ratio", 1000),
    "approximation-split-equal": scaled("approximations", "gap_equal", 10),
}
"""What makes a claim hold that does not hold on the datasets as they are."""
OF_DATA = [claim for claim in CLAIMS if claim.evidence]


def follow_blocks(datasets: Datasets) -> None:
    """Estimates without a block follow the whole, whose layers a change has moved."""
    data = datasets["attention"]
    for name in ("prefix_error", "delta_attn", "delta_proj"):
        without = data[f"{name}_without"]
        without[:] = data[name].values + (without - without.mean("block"))


@pytest.mark.parametrize("claim", CLAIMS, ids=lambda claim: claim.id)
def test_every_claim_can_hold(claim: Claim) -> None:
    datasets = made_up()
    HOLDS.get(claim.id, lambda _: None)(datasets)
    row = judged(claim.id, datasets)
    assert row.verdict == "holds", row
    assert math.isfinite(row.value)


@pytest.mark.parametrize("claim", OF_DATA, ids=lambda claim: claim.id)
def test_every_claim_can_fail(claim: Claim) -> None:
    datasets = made_up()
    if claim.id in RELATIONS:
        wrong = 2 * TEXTS[claim.id].tolerance + 1e-3
        stated = datasets["collapsed_states"]["stated"].sel(statement=claim.id).values
        value = stated + (-wrong if RELATIONS[claim.id] == "at least" else wrong)
        datasets["collapsed_states"]["measured"].loc[{"statement": claim.id, "trial": 1}] = value[1]
    else:
        FAILS[claim.id](datasets)
        follow_blocks(datasets)
    row = judged(claim.id, datasets)
    assert row.verdict == "fails", row
    assert math.isfinite(row.value)


def test_the_peak_can_be_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    peak_moved(monkeypatch)
    assert judged("increment-peak", {}).verdict == "fails"


@pytest.mark.parametrize("claim", OF_DATA, ids=lambda claim: claim.id)
def test_every_claim_is_undecided_without_its_data_or_where_nothing_was_measured(claim: Claim) -> None:
    (name,) = claim.evidence
    data = made_up()[name]
    empty = data.map(lambda values: values * np.nan if values.dtype.kind == "f" else values, keep_attrs=True)
    for datasets in ({}, {name: empty.assign_attrs(data.attrs)}):
        row = judged(claim.id, datasets)
        assert (row.verdict, math.isnan(row.value)) == ("undecided", True)


@pytest.mark.parametrize(
    ("claim", "missing"),
    [
        ("attention-increment-positive", {"variance_scale": [2.0, 4.0]}),
        ("attention-increment-positive", {"placement": ["post"]}),
        ("attention-increment-positive", {"seed": [0, 1]}),
        ("attention-increases-with-amount", {"variance_scale": [1.0]}),
        ("attention-row-norms", {"seed": [0, 1]}),
        ("amount-rate-pre", {"layer": [1, 2]}),
        ("post-saturates", {"variance_scale": [1.0]}),
        ("post-saturates-more", {"placement": ["post"]}),
        ("deescalation-vanishes", {"deescalation": [0.0, 0.5]}),
        ("prefix-error-mean", {"block": [0, 8]}),
        ("deescalation-removes-growth", {"deescalation": [0.0, 0.5]}),
        ("deescalation-monotone", {"deescalation": [0.0]}),
        ("post-above-pre", {"seed": [0]}),
        ("approximation-split-prefix", {"variance_scale": [2.0]}),
        ("approximation-split-prefix", {"seed": [0, 1]}),
        ("concentration-rate", {"realization": [0, 1]}),
        ("swiglu-moment-one", {"preact_variance": [2 / 3]}),
        ("swiglu-moment-one", {"rho": [0.0, 0.5]}),
        ("concentration-rate", {"width": [64]}),
        ("concentration-constant", {"width": [64]}),
        ("theorem-3.6", {"statement": ["lemma-e1"]}),
    ],
)
def test_a_setting_that_was_not_measured_leaves_a_claim_undecided(claim: str, missing: dict[str, list[object]]) -> None:
    datasets = made_up()
    name = BY_ID[claim].evidence[0]
    datasets[name] = datasets[name].sel(missing)
    assert judged(claim, datasets).verdict == "undecided"


@pytest.mark.parametrize(
    ("key", "value"), [("layers", 24), ("width", 64), ("heads", 8), ("ffn_width", 192), ("sequence_length", 128)]
)
def test_the_papers_numbers_are_judged_at_the_papers_shape_only(key: str, value: int) -> None:
    datasets = made_up()
    data = datasets["attention"]
    spec = json.loads(data.attrs["spec"])
    spec["model"][key] = value
    data.attrs["spec"] = canonical_json(spec)
    anywhere = ["prefix-error-small", "prefix-error-noise"]
    of_paper = [claim for claim in CLAIMS if claim.id.startswith("prefix-error") and claim.id not in anywhere]
    assert [row.verdict for row in assess(of_paper, datasets)] == ["undecided"] * 4
    assert [judged(name, datasets).verdict for name in anywhere] == ["holds"] * 2


def test_the_papers_numbers_need_its_initializations() -> None:
    datasets = made_up()
    spec = json.loads(datasets["attention"].attrs["spec"]) | {"seeds": [0, 31]}
    datasets["attention"].attrs["spec"] = canonical_json(spec)
    for claim in ("prefix-error-mean", "proxy-attention-small", "proxy-projected-small"):
        assert judged(claim, datasets).verdict == "undecided"


@pytest.mark.parametrize(
    ("seeds", "per_block", "bias", "scatter", "small", "noise"),
    [
        (2, 1, 0.0, 0.5, "undecided", "undecided"),  # e_2 is 0.35
        (32, 16, 0.0, 0.5, "undecided", "undecided"),
        (32, 4, 0.0, 0.5, "holds", "holds"),
        (32, 4, 0.0, 0.8, "holds", "holds"),  # e_32 is 0.14, all of it noise
        (32, 4, 0.0, 2.0, "undecided", "holds"),
        (9, 1, 0.05, 0.1, "holds", "fails"),
        (32, 5, 0.3, 1.0, "fails", "fails"),
        (1, 1, 0.3, 1.0, "undecided", "undecided"),
    ],
)  # fmt: skip
def test_noise_of_the_initializations_is_no_prefix_error(
    seeds: int, per_block: int, bias: float, scatter: float, small: str, noise: str
) -> None:
    datasets = {"attention": drawn_attention(seeds, per_block, bias, scatter)}
    rows = [judged(name, datasets) for name in ("prefix-error-small", "prefix-error-noise")]
    assert [row.verdict for row in rows] == [small, noise], rows


def test_noise_of_the_seeds_is_no_deviation_of_row_norms() -> None:
    datasets = made_up()
    rows = datasets["increments"]["row_square"]
    rows[:] = datasets["increments"]["row_square_predicted"] + np.random.default_rng(0).normal(0, 0.6, rows.shape)
    mean = rows.sel(sublayer="attention", placement="post", variance_scale=1.0, deescalation=0.0).mean(
        ("seed", "layer")
    )
    stated = datasets["increments"]["row_square_predicted"][0, 0, 0, 0, 0, 0, 0]
    assert np.linalg.norm(mean - stated) > 0.5 * np.linalg.norm(stated - 1)
    assert judged("attention-row-norms", datasets).verdict == "undecided"


def test_a_single_variance_is_judged() -> None:
    datasets = made_up()
    datasets["increments"] = datasets["increments"].sel(variance_scale=[4.0])
    names = ("attention-formula-scale", "ffn-formula-scale", "attention-formula-rank")
    assert [judged(name, datasets).verdict for name in names] == ["holds"] * 3


def test_the_ffn_must_damp_and_attention_amplify() -> None:
    claim = "ffn-damping-smaller"
    datasets = made_up()
    scaled("increments", "increment", -1, sublayer="ffn")(datasets)
    assert judged(claim, datasets).verdict == "fails"
    scaled("increments", "increment", -1, sublayer="attention")(datasets)
    assert judged(claim, datasets).verdict == "undecided"


@pytest.mark.parametrize(
    ("claim", "variable"),
    [
        ("deescalation-removes-growth", "tsim_y"),
        ("deescalation-vanishes", "increment"),
        ("post-saturates", "increment"),
        ("post-saturates-more", "increment"),
    ],
)
def test_a_share_of_no_growth_is_undecided(claim: str, variable: str) -> None:
    datasets = made_up()
    scaled("increments", variable, -1)(datasets)
    assert judged(claim, datasets).verdict == "undecided"


@pytest.mark.parametrize(
    ("claim", "dataset"), [("swiglu-moment-sampled", "swiglu_moment"), ("concentration-centers", "concentration")]
)
def test_few_draws_decide_nothing(claim: str, dataset: str) -> None:
    datasets = made_up()
    FAILS[claim](datasets)
    datasets[dataset].attrs["spec"] = canonical_json({"draws": 999})
    assert judged(claim, datasets).verdict == "undecided"


def test_the_premise_is_of_every_realization() -> None:
    datasets = made_up()
    put("concentration", "premise", 2.5, branch="ffn", width=64, realization=1)(datasets)
    assert float(datasets["concentration"]["premise"].sel(branch="ffn", width=64).mean()) < 2
    assert judged("concentration-premise", datasets).verdict == "undecided"


def test_a_mean_that_straddles_its_threshold_is_undecided() -> None:
    datasets = made_up()
    increment = datasets["increments"]["increment"]
    increment.loc[{"layer": 4, "sublayer": "attention"}] = xr.DataArray([0.01, -0.01, 0.02, -0.005], dims="seed")
    assert judged("attention-increment-positive", datasets).verdict == "undecided"


def test_a_share_that_may_be_noise_is_undecided() -> None:
    """A share beyond the threshold that noise of the gap's own size could have made."""
    datasets = made_up()
    put("approximations", "gap_ratio", 3e-4)(datasets)
    assert judged("ratio-of-expectations-accurate", datasets).verdict == "fails"
    put("approximations", "gap_ratio_se", 3e-4)(datasets)
    assert judged("ratio-of-expectations-accurate", datasets).verdict == "undecided"


def test_a_tail_that_was_too_thin_for_the_constant_is_undecided() -> None:
    datasets = made_up()
    put("concentration", "exponent", np.inf, width=64)(datasets)
    assert judged("concentration-constant", datasets).verdict == "undecided"


def test_ids_are_unique_and_every_dataset_is_read() -> None:
    assert len(BY_ID) == len(CLAIMS)
    assert len(set(DATASETS)) == len(DATASETS) == 6
    assert {name for claim in CLAIMS for name in claim.evidence} == set(DATASETS) == set(made_up())


def test_every_statement_that_is_measured_has_its_text() -> None:
    assert list(TEXTS) == list(RELATIONS)


def test_every_claim_is_in_the_documents() -> None:
    page = (Path(__file__).parents[2] / "docs/claims.md").read_text(encoding="utf-8")
    assert not [claim.id for claim in CLAIMS if f"`{claim.id}`" not in page]
    assert not [claim.id for claim in CLAIMS if f"| `{claim.id}` | {claim.range} |" not in page]


def test_a_table_of_every_claim_is_read_as_it_was_written(tmp_path: Path) -> None:
    rows = assess(CLAIMS, {name: data for name, data in made_up().items() if name != "concentration"})
    assert [row.id for row in rows] == list(BY_ID)
    assert {row.verdict for row in rows} == {"holds", "fails", "undecided"}
    write_claims(rows, tmp_path / "claims.csv")
    for again, row in zip(read_claims(tmp_path / "claims.csv"), rows, strict=True):
        assert again == row or (math.isnan(again.value) and math.isnan(row.value))
        assert again._replace(value=0.0) == row._replace(value=0.0)
