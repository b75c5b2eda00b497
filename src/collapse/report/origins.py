"""The provenance of a report's numbers, from the manifests of runs and datasets."""

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from collapse.store.dataset import dataset_manifest
from collapse.store.read import run_manifest


def origins(results: Path, run_ids: Sequence[str], datasets: Sequence[str]) -> list[tuple[str, Mapping[str, str]]]:
    """(names, provenance) of runs and datasets; those with the same provenance share an entry.

    Args:
        results: The results folder.
        run_ids: The config's runs.
        datasets: Datasets relative to the results folder, without extension. The slices of a dataset have entries of
            their own.

    Raises:
        CollapseError: if a run or a dataset is missing or unfinished.
    """
    groups: dict[tuple[tuple[str, str], ...], list[str]] = {}
    for run_id in run_ids:
        provenance = run_manifest(results / "runs" / run_id).get("provenance") or {}
        groups.setdefault(tuple(_flat(provenance)), []).append(run_id)
    if len(groups) == 1:
        groups = {pairs: ["all runs"] for pairs in groups}
    for path in datasets:
        for name, provenance in _of_dataset(results, path):
            members = groups.setdefault(tuple(_flat(provenance)), [])
            members += [name] if name not in members else []
    return [(", ".join(members), dict(pairs)) for pairs, members in groups.items()]


def _of_dataset(results: Path, name: str) -> Iterator[tuple[str, Mapping[str, Any]]]:
    provenance = dataset_manifest(results / f"{name}.zarr").get("provenance") or {}
    yield from ((f"slices of {name}", one) for one in provenance.get("slices", []))
    yield name, {key: value for key, value in provenance.items() if key != "slices"}


def _flat(values: Mapping[str, Any], prefix: str = "") -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    for key, value in values.items():
        if isinstance(value, Mapping):
            pairs.extend(_flat(value, f"{prefix}{key}: "))
        else:
            pairs.append((f"{prefix}{key}", "unknown" if value is None else str(value)))
    return pairs
