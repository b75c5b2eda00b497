"""The laws of the house: data flows one way, light modules stay light, names come from where they are defined."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collapse.pipeline.fingerprint import PACKAGE, imports

STAGES = ["config", "corpus", "training", "probes", "analysis", "figures", "report"]
FLOORS = {
    name: floor
    for floor, names in enumerate(
        (
            ["errors", "files", "progress", "provenance", "similarity"],
            ["config", "recording", "store", "leases"],
            ["corpus", "model", "theory"],
            ["training", "probes", "analysis"],
            ["figures"],
            ["report"],
            ["garbage", "verify", "planning", "cli"],
        )
    )
    for name in names
}
"""How high each part of the package stands; nothing imports from a floor above its own."""

MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def part(module: str) -> str:
    return module.split(".")[1]


def test_every_part_has_its_floor() -> None:
    assert {part(module) for module in MODULES if "." in module} == set(FLOORS)


@pytest.mark.parametrize("module", [name for name in MODULES if "." in name])
def test_no_import_goes_up(module: str) -> None:
    below = {name for name in imports(module) if "." in name}
    assert not {name for name in below if FLOORS[part(name)] > FLOORS[part(module)]}
    if part(module) in STAGES:
        later = STAGES[STAGES.index(part(module)) + 1 :]
        assert not {name for name in below if part(name) in later}


@pytest.mark.parametrize("module", MODULES)
def test_names_come_from_the_module_that_defines_them(module: str) -> None:
    """A lazy `__init__` is for users: inside, it would tie every stage's fingerprint to the whole package."""
    for node in ast.walk(ast.parse(MODULES[module].read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom) and node.module in MODULES and MODULES[node.module].name == "__init__.py":
            assert not [alias.name for alias in node.names if f"{node.module}.{alias.name}" not in MODULES]


def test_no_circular_imports() -> None:
    finished: set[str] = set()

    def visit(module: str, path: tuple[str, ...]) -> None:
        assert module not in path, " -> ".join([*path, module])
        if module not in finished:
            for name in imports(module):
                if MODULES[name].name != "__init__.py":
                    visit(name, (*path, module))
            finished.add(module)

    for module in MODULES:
        visit(module, ())


LIGHT_PARTS = {"config", "store", "analysis", "figures", "report", "cli", "garbage", "planning"}
LIGHT = [module for module in MODULES if "." in module and part(module) in LIGHT_PARTS] + [
    "collapse.recording.statistics"
]


def test_light_modules_import_neither_torch_nor_datasets() -> None:
    names = [name for name in LIGHT if not name.endswith("__main__")]
    script = f"import sys, {', '.join(names)}\nprint(*{{'torch', 'datasets', 'deepspeed'}} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_no_module_is_too_long() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert not {module: length for module, length in lengths.items() if length > 400}


def test_the_workflow_is_parsed_without_heavy_imports() -> None:
    """A login node is shared: what Snakefile and rules import stays light."""
    root = PACKAGE.parents[1]
    texts = [path.read_text() for path in (root / "Snakefile", *root.glob("workflow/rules/*.smk"))]
    names = set(re.findall(r"^from (collapse\.[\w.]+) import", "\n".join(texts), flags=re.MULTILINE))
    assert {"collapse.pipeline.plan", "collapse.pipeline.site", "collapse.pipeline.resources"} <= names
    heavy = {"torch", "deepspeed", "datasets", "numpy", "scipy", "pandas", "xarray", "zarr", "matplotlib"}
    script = f"import sys, {', '.join(names)}\nprint(*{heavy} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_tests_mirror_the_package() -> None:
    tests = Path(__file__).parent
    assert not {module for module in FLOORS if (PACKAGE / module).is_dir() and not (tests / module).is_dir()}
