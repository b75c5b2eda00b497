import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from collapse.pipeline.fingerprint import PACKAGE, closure, fingerprint, imports

FILES = {
    "stage/extra.py": (
        "def check(x):\n    if x < 0:\n        raise ValueError(f'{x} is negative') from None\n    return x + 1\n"
    ),
    "__init__.py": '"""A package."""\nimport lazy_loader\n__getattr__ = lazy_loader.attach_stub(__name__, __file__)\n',
    "stage/__init__.py": '"""A stage."""\n',
    "stage/__main__.py": "from toy.stage.work import work\n\nwork(1)\n",
    "stage/work.py": (
        '"""Works."""\n'
        "from typing import TYPE_CHECKING\n"
        "from toy.shared.numbers import TWO\n"
        "if TYPE_CHECKING:\n"
        "    from toy.other import Other\n"
        "def work(x: int) -> int:\n"
        '    """Doubles."""\n'
        "    from toy import deep\n"
        '    assert x, "no x"\n'
        "    toy.say('working')\n"
        "    return deep.add(x, TWO)  # a comment\n"
    ),
    "shared/__init__.py": "",
    "shared/numbers.py": "TWO = 2\n",
    "deep.py": 'WORKER = "toy.worker"\ndef add(a, b): return a + b\n',
    "worker.py": "RATE = 0.5\n",
    "other.py": "class Other: pass\n",
    "stage/page.j2": "<p>{{ value }}</p>\n",
}


@pytest.fixture
def toy(tmp_path: Path) -> Callable[..., str]:
    """Write a toy package with some changed files; returns the fingerprint of its stage."""
    versions = iter(range(100))

    def build(changes: dict[str, str] | None = None) -> str:
        package = tmp_path / str(next(versions)) / "toy"
        for name, content in (FILES | (changes or {})).items():
            path = package / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content)
        return fingerprint("toy.stage", package)

    return build


def edit(name: str, old: str, new: str) -> dict[str, str]:
    assert old in FILES[name]
    return {name: FILES[name].replace(old, new)}


@pytest.mark.parametrize(
    "harmless",
    [
        edit("stage/work.py", "# a comment", "# another"),
        edit("stage/work.py", '"""Doubles."""', '"""Adds two.\n\n    At length.\n    """'),
        edit("stage/work.py", '"""Works."""\n', ""),
        edit("stage/work.py", '"no x"', '"x is missing"'),
        edit("stage/work.py", "'working'", "'at work'"),
        edit("stage/extra.py", "is negative", "is below 0"),
        edit("stage/work.py", "deep.add(x, TWO)", "(\n        deep.add(x,\n            TWO)\n    )"),
        edit("stage/work.py", "toy.other import Other", "toy.other import Another"),
        edit("shared/numbers.py", "TWO = 2\n", 'TWO = 2\n"""The number two."""\n'),
        {"__init__.pyi": "from . import stage as stage\n"},
        edit("other.py", "pass", "x = 1"),
        {"unused.py": "import toy.stage.work\n"},
        {"stage/.work.py.swp": "an editor's"},
    ],
    ids=[
        "comment",
        "docstring",
        "module docstring",
        "message of an assertion",
        "message to the user",
        "message of an exception",
        "formatting",
        "import for type checking",
        "attribute docstring",
        "lazy names of a package",
        "module imported for type checking",
        "unused module",
        "hidden file",
    ],
)
def test_harmless_edits_do_not_count(toy: Callable[..., str], harmless: dict[str, str]) -> None:
    assert toy(harmless) == toy()


@pytest.mark.parametrize(
    "change",
    [
        edit("stage/work.py", "add(x, TWO)", "add(TWO, x)"),
        edit("stage/extra.py", "x + 1", "x + 2"),
        edit("stage/extra.py", "raise ValueError", "raise TypeError"),
        edit("stage/extra.py", "x < 0", "x <= 0"),
        edit("stage/__main__.py", "work(1)", "work(2)"),
        edit("shared/numbers.py", "2", "2.0"),
        edit("deep.py", "a + b", "a - b"),
        edit("worker.py", "0.5", "0.25"),
        edit("stage/page.j2", "<p>", "<b>"),
        {"stage/__init__.py": "import toy.other\n"},
    ],
    ids=[
        "code",
        "module of the package that nothing imports",
        "kind of an exception",
        "condition of an exception",
        "__main__",
        "type of a number",
        "import inside a function",
        "named process",
        "template",
        "__init__",
    ],
)
def test_real_changes_count(toy: Callable[..., str], change: dict[str, str]) -> None:
    assert toy(change) != toy()


def test_a_relative_import_is_rejected(toy: Callable[..., str]) -> None:
    with pytest.raises(SyntaxError, match="relative imports are not followed"):
        toy({"stage/__init__.py": "from . import work\n"})


def test_a_stage_that_does_not_exist_is_rejected() -> None:
    with pytest.raises(ModuleNotFoundError, match=r"the package collapse has no module collapse\.nonsense"):
        fingerprint("collapse.nonsense")


def test_the_closure_covers_the_imports_of_python() -> None:
    """The closure of a module contains every module of the package that its import loads."""
    for module in ("collapse.config.root", "collapse.figures.overview", "collapse.launch.__main__"):
        script = f"import sys, {module}; print(*(m for m in sys.modules if m.split('.')[0] == 'collapse'))"
        loaded = subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True
        ).stdout.split()
        assert set(loaded) <= set(closure(module))


def test_a_figure_does_not_depend_on_the_training() -> None:
    assert not {name for name in closure("collapse.figures.overview") if name.startswith("collapse.training")}
    assert "collapse.errors" in imports("collapse.cli")


def test_a_training_does_not_depend_on_how_it_is_launched() -> None:
    found = closure("collapse.training")
    assert "collapse.training.run" in found and "collapse.training.loop" in found
    assert not {
        name for name in found if name.startswith(("collapse.launch", "collapse.pipeline", "collapse.progress"))
    }


@pytest.mark.parametrize(
    ("name", "old", "new", "counts"),
    [
        ("launch/leases.py", "execution asks for", "execution wants", False),
        ("launch/launcher.py", "submit trainings to Slurm", "use Slurm", False),
        ("launch/locks.py", "another process is training this run", "this run is being trained", False),
        ("launch/deadline.py", "MARGIN = 1.5", "MARGIN = 2", False),
        ("progress.py", "{desc}", "", False),
        ("errors.py", "the disk is full", "no space is left", False),
        ("config/execution.py", "log_seconds: PositiveReal = 5.0", "log_seconds: PositiveReal = 9.0", False),
        ("training/checkpoint.py", "the checkpoint belongs to run", "this is run", False),
        ("training/loop.py", "resuming from", "continuing from", False),
        ("training/engine.py", '{"stage": 1}', '{"stage": 2}', True),
        ("training/checkpoint.py", "KEPT = 2", "KEPT = 3", True),
    ],
)
def test_what_counts_for_a_training(tmp_path: Path, name: str, old: str, new: str, counts: bool) -> None:
    package = Path(shutil.copytree(PACKAGE, tmp_path / "collapse", ignore=shutil.ignore_patterns("__pycache__")))
    content = (package / name).read_text()
    assert old in content
    (package / name).write_text(content.replace(old, new))
    assert (fingerprint("collapse.training", package) != fingerprint("collapse.training")) == counts
