"""Where the numbers of a report come from, gathered from the manifests of runs and datasets."""

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collapse.errors import CollapseError
from collapse.store.dataset import manifest_of
from collapse.store.read import read_manifest


def origins(results: Path, run_ids: Sequence[str], datasets: Sequence[str]) -> list[tuple[str, Mapping[str, str]]]:
    """(what, provenance) of runs and datasets, those of the same origin together.

    Args:
        results: The results folder.
        run_ids: The config's runs.
        datasets: Datasets relative to the results folder, without extension; of one that was put together from slices
            the slices' provenance is given too.

    Raises:
        CollapseError: where a run or a dataset is missing or unfinished.
    """
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run_id in run_ids:
        provenance = read_manifest(results / "runs" / run_id).get("provenance") or {}
        groups.setdefault(tuple(_flat(provenance)), []).append(run_id)
    if len(groups) == 1:
        groups = {pairs: ["all runs"] for pairs in groups}
    for dataset in datasets:
        for name, provenance in _of_dataset(results, dataset):
            members = groups.setdefault(tuple(_flat(provenance)), [])
            members += [name] if name not in members else []
    return [(", ".join(members), dict(pairs)) for pairs, members in groups.items()]


def _of_dataset(results: Path, dataset: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    manifest = manifest_of(results / f"{dataset}.zarr")
    try:
        provenance = json.loads(manifest.read_text(encoding="utf-8"))["provenance"]
    except OSError:
        raise CollapseError(f"{manifest}: missing; make the dataset before making the report") from None
    except (ValueError, KeyError, TypeError):
        raise CollapseError(f"{manifest}: is not a manifest; delete it and make the dataset again") from None
    yield from ((f"slices of {dataset}", one) for one in provenance.get("slices", []))
    yield dataset, {key: value for key, value in provenance.items() if key != "slices"}


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            pairs.extend(_flat(value, f"{prefix}{key}: "))
        else:
            pairs.append((f"{prefix}{key}", "unknown" if value is None else str(value)))
    return pairs
