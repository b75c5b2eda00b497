"""Results that no config refers to any more."""

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
        """Deletes it."""
        if self.path.is_dir():
            shutil.rmtree(self.path)
        else:
            self.path.unlink()


def _unknown(kind: str, folder: Path, known: Collection[str]) -> Iterator[Leftover]:
    """What lies in a folder under a name that is not among the known ones, hidden and lock files apart."""
    if folder.is_dir():
        for path in sorted(folder.iterdir()):
            if path.name not in known and not path.name.startswith(".") and path.suffix != ".lock":
                yield Leftover(kind, path)


def leftovers(configs: Sequence[Config]) -> list[Leftover]:
    """Whatever lies in the results of some configs that none of them refers to.

    That is runs, token stores, corpora, datasets of probes and theory, scratch folders and figures. Configs of one name
    share their results, and keep what any of them refers to. Results of other names are left alone.
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
    """Remove the scratch folders of finished runs, once Snakemake has registered every job that it saw or began.

    Such a folder holds the finished run a second time, for a Snakemake that did not see its job end.
    """
    if any(INCOMPLETE.glob("*")):
        return
    for run_id in plan.runs:
        scratch = plan.train_scratch(run_id)
        only_finished = scratch.is_dir() and [path.name for path in scratch.iterdir()] == [FINISHED]
        if only_finished and (plan.paths.run(run_id) / "manifest.json").is_file():
            shutil.rmtree(scratch, ignore_errors=True)


def refuse_while_running() -> None:
    """Nothing is removed under a workflow's hands.

    Raises:
        CollapseError: where a Snakemake holds this folder's lock.
    """
    if LOCKS.is_dir() and any(LOCKS.iterdir()):
        raise CollapseError(
            "a snakemake is at work in this folder (or was killed: then run `snakemake --unlock` first); "
            "remove nothing until it is done"
        )
