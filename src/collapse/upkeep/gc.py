"""Results that no config refers to."""

import shutil
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from collapse.config.root import Config
from collapse.errors import CollapseError
from collapse.pipeline.paths import FINISHED, results
from collapse.pipeline.plan import Plan

LOCKS = Path(".snakemake/locks")
INCOMPLETE = Path(".snakemake/incomplete")


@dataclass(frozen=True)
class Leftover:
    """A file or folder below `results/<name>/` that no config refers to."""

    kind: str
    path: Path

    @property
    def size(self) -> int:
        """Bytes on disk."""
        files = self.path.rglob("*") if self.path.is_dir() else [self.path]
        return sum(file.lstat().st_size for file in files if not file.is_dir())

    def remove(self) -> None:
        """Delete the file or folder."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            self.path.unlink()


def _unknown(kind: str, folder: Path, known: Collection[str]) -> Iterator[Leftover]:
    """Content of a folder with unknown names, except hidden files and lock files."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name not in known and not path.name.startswith(".") and path.suffix != ".lock":
                yield Leftover(kind, path)


def leftovers(configs: Sequence[Config]) -> list[Leftover]:
    """Results of some configs that none of these configs refers to.

    These may be runs, token stores, corpora, datasets, scratch folders and figures. Configs with the same name share
    their results: a result stays if any of them refers to it. Results of other names are not considered.
    """
    found: list[Leftover] = []
    for name in sorted({config.name for config in configs}):
        plans = [Plan(config) for config in configs if config.name == name]
        paths = results(name)
        drawn = {f"{figure}.{suffix}" for plan in plans for figure in plan.figures for suffix in ("png", "pdf")}
        stores = {path for plan in plans for path in plan.datasets}
        datasets = {path.with_suffix(suffix).name for path in stores for suffix in (".zarr", ".json")} | {"slices"}
        found += _unknown("corpus", paths.root / "corpus", {corpus for plan in plans for corpus in plan.corpora})
        found += _unknown("tokens", paths.root / "tokens", {store for plan in plans for store in plan.token_stores})
        found += _unknown("run", paths.root / "runs", {run_id for plan in plans for run_id in plan.runs})
        found += _unknown("scratch", paths.root / "scratch", {folder for plan in plans for folder in plan.scratch})
        for folder in sorted({path.parent for path in stores}):
            found += _unknown("dataset", folder, datasets)
        found += _unknown("figure", paths.figures, drawn)
    return found


def forget_finished(plan: Plan) -> None:
    """Remove the scratch folders of finished runs, unless Snakemake has incomplete jobs.

    Such a folder contains a copy of the finished run, in case Snakemake missed the end of the job.
    """
    if any(INCOMPLETE.glob("*")):
        return
    for run_id in plan.runs:
        scratch = plan.train_scratch(run_id)
        only_finished = scratch.is_dir() and [path.name for path in scratch.iterdir()] == [FINISHED]
        if only_finished and (plan.paths.run(run_id) / "manifest.json").is_file():
            shutil.rmtree(scratch, ignore_errors=True)


def refuse_while_running() -> None:
    """Refuse to remove results while a workflow runs.

    Raises:
        CollapseError: if a Snakemake process holds the lock of this folder.
    """
    if LOCKS.is_dir() and any(LOCKS.iterdir()):
        raise CollapseError(
            "snakemake is running in this folder: wait until it ends (if it was killed, run `snakemake --unlock`)"
        )
