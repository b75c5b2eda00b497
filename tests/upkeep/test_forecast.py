import json
import re
from pathlib import Path
from typing import Any

import pytest

from collapse.config.root import load
from collapse.errors import CollapseError
from collapse.pipeline.cost import checkpoint_bytes, flops
from collapse.pipeline.datasets import DATASETS
from collapse.pipeline.plan import Plan
from collapse.upkeep.devices import ASSUMED_UTILISATION, DEVICES, device
from collapse.upkeep.forecast import HOUR, forecast, makespan, store_bytes
from collapse.upkeep.page import as_json, count, duration, size

ROOT = Path(__file__).parents[2]


def touch(path: Path, content: str = "{}") -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


def test_totals(make_plan: Any) -> None:
    plan = make_plan()
    foreseen = forecast(plan)
    each = flops(plan.config.model).total
    assert [run.tokens for run in foreseen.runs] == [100 * 8 * 16] * 3 + [50 * 1 * 16]
    assert [run.flops for run in foreseen.runs] == [100 * 8 * each] * 3 + [50 * each]
    assert foreseen.tokens_left == 3 * 12800 + 800
    assert foreseen.disk.stores == 3 * store_bytes(2, 100) + store_bytes(2, 50)
    assert foreseen.disk.checkpoint == checkpoint_bytes(plan.config.model)


def test_store_size_depends_on_the_recorded_steps(make_plan: Any) -> None:
    windows = make_plan(record={"every": 10, "dense": [[20, 29]]})
    assert [run.store_bytes for run in forecast(windows).runs[2:]] == [store_bytes(2, n) for n in (20, 15)]


def test_states_and_what_is_left(make_plan: Any) -> None:
    plan = make_plan()
    first, second, third, fourth = plan.runs
    code = plan.code("training")
    touch(plan.paths.run(first) / "manifest.json", json.dumps({"code": code}))
    for step in (20, 75):
        touch(plan.train_scratch(second) / "checkpoints" / f"step-{step:08d}.json")
    touch(plan.paths.scratch(f"{third}-000000000000") / "checkpoints" / "step-00000040.json")
    touch(plan.paths.run(fourth) / "manifest.json", json.dumps({"code": "000000000000"}))
    foreseen = forecast(plan)
    standings = [run.standing for run in foreseen.runs]
    assert [str(s) for s in standings] == ["done", "resumable at step 75", "to do", "done"]
    assert [s.other_code for s in standings] == [False, False, False, True]
    assert foreseen.tokens_left == (0.25 + 1) * 12800
    assert foreseen.flops_left == (0.25 + 1) * foreseen.runs[0].flops


def test_probes(make_plan: Any) -> None:
    plan = make_plan()
    touch(Path(plan.slice_manifests("attention")[1]))
    touch(plan.paths.dataset("swiglu_moment").with_suffix(".json"))
    probes = {probe.name: probe for probe in forecast(plan).probes}
    assert set(probes) == set(DATASETS)
    assert (probes["attention"].jobs, probes["attention"].done) == (len(plan.slices("attention")), 1)
    assert (probes["swiglu_moment"].jobs, probes["swiglu_moment"].done) == (1, 1)
    assert probes["approximations"].done == 0
    assert probes["increments"].memory_mb == plan.memory_mb("increments")


def test_hours_are_operations_divided_by_the_rate(make_plan: Any) -> None:
    plan = make_plan()
    (estimate,) = forecast(plan, [device("h100")]).estimates
    rate = ASSUMED_UTILISATION * 989.5e12
    assert estimate.precision == "bf16" and estimate.device.basis == "assumed"
    assert estimate.hours * HOUR == pytest.approx(forecast(plan).flops_left / rate)
    assert estimate.hours == estimate.device_hours


def test_runs_side_by_side_and_split_over_devices(make_plan: Any) -> None:
    plan = make_plan(execution={"processes": 1})
    run = forecast(plan).runs[0]
    alone = run.flops / device("a100").rate("bf16") / HOUR
    (three,) = forecast(plan, [device("a100")], 3).estimates
    assert three.runs_at_once == 3
    assert three.hours == pytest.approx(alone + forecast(plan).runs[3].flops / run.flops * alone)

    split = make_plan(execution={"processes": 2}, grid={"extra": []})
    (one,) = forecast(split, [device("a100")], 2).estimates
    assert one.runs_at_once == 1
    assert one.hours == pytest.approx(3 * alone / 2)
    assert one.device_hours == pytest.approx(3 * alone)
    mixed = make_plan(execution={"processes": 2})  # the last run has one sequence per step and uses one device
    (both,) = forecast(mixed, [device("a100")], 2).estimates
    last = forecast(mixed).runs[3].flops / run.flops * alone
    assert both.hours == pytest.approx(3 * alone / 2 + last)
    assert both.device_hours == pytest.approx(3 * alone + last)
    (none,) = forecast(split, [device("a100")], 1).estimates
    assert none.hours is None and "--devices 2" in none.why_not


def test_longest_runs_start_first() -> None:
    assert makespan([1, 1, 1, 3], 2) == 3
    assert makespan([], 2) == 0


def test_there_is_no_estimate_without_a_measurement(make_plan: Any) -> None:
    (estimate,) = forecast(make_plan(training={"precision": "bf16"}), [device("xeon-core")]).estimates
    assert estimate.hours is None and "no measurement" in estimate.why_not
    assert {d.basis for d in DEVICES.values() if not d.measured} == {"assumed"}
    assert not any(d.measured for d in DEVICES.values() if d.basis == "assumed")


def test_the_measured_core_ran_the_default_config() -> None:
    config, core = load(ROOT / "config/config.yaml"), DEVICES["xeon-core"]
    step = flops(config.model).total * config.training.batch_size
    gflop, milliseconds = map(float, re.findall(r"step of ([\d.]+) GFLOP in ([\d.]+) ms", core.source)[0])
    assert gflop == pytest.approx(step / 1e9, rel=0.002)
    assert core.measured["fp32"] == pytest.approx(step / milliseconds * 1e3, rel=0.005)


def test_the_devices_that_the_config_allows(make_plan: Any) -> None:
    named = {kind: [e.device.name for e in forecast(make_plan(execution={"device": kind})).estimates] for kind in
             ("auto", "cpu", "cuda")}  # fmt: skip
    assert named == {"auto": list(DEVICES), "cpu": ["xeon-core"], "cuda": ["a100", "h100", "h200"]}


def test_an_unknown_device_is_rejected() -> None:
    with pytest.raises(CollapseError, match=r"--device tpu: .*xeon-core, a100, h100, h200"):
        device("tpu")


def test_a_device_with_too_little_memory(make_plan: Any) -> None:
    large = {"layers": 48, "width": 4096, "heads": 32, "ffn_width": 16384, "sequence_length": 8192}
    (estimate,) = forecast(make_plan(model=large), [device("a100")]).estimates
    assert not estimate.fits


def test_json_contains_the_numbers(make_plan: Any) -> None:
    foreseen = forecast(make_plan(), [device("h200")])
    data = json.loads(json.dumps(as_json(foreseen)))
    assert data["totals"]["runs"] == {"done": 0, "resumable": 0, "to do": 4}
    assert data["totals"]["flop"] == sum(run["flop"] for run in data["runs"])
    assert data["devices"][0]["memory_bytes"]["total"] == foreseen.estimates[0].memory.total
    assert data["disk_bytes"]["tokens"] == foreseen.disk.tokens


def test_numbers_are_readable() -> None:
    assert [size(x) for x in (0, 1234, 999_600, 2.5e12)] == ["0 Bytes", "1.2 kB", "999.6 kB", "2.5 TB"]
    assert [count(x, "FLOP") for x in (1.38e9, 2.9e20)] == ["1.38 GFLOP", "290 EFLOP"] and count(13400) == "13.4 k"
    assert [duration(h) for h in (None, 0, 1e-4, 0.5, 3, 100, 24 * 3652.5)] == [
        "?", "0 min", "< 1 min", "30 min", "3.0 h", "4.2 days", "10 years",
    ]  # fmt: skip


def test_the_papers_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    foreseen = forecast(Plan(load(ROOT / "config/paper.yaml")), [device("h100")], 8)
    assert foreseen.parameters == 180011520
    assert foreseen.runs[0].tokens == 40000 * 256 * 2048
    assert foreseen.disk.tokens == pytest.approx(42e9, rel=0.01)
    (estimate,) = foreseen.estimates
    assert estimate.fits
    one_run = foreseen.runs[0].flops / (ASSUMED_UTILISATION * 989.5e12) / HOUR
    assert estimate.hours == pytest.approx(2 * one_run)  # ten long runs on eight cards
