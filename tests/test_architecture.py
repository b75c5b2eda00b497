"""The laws of the house: data flows one way, light modules stay light, names come from where they are defined."""

import ast
import re
import subprocess
import sys
from pathlib import Path

import pytest

from collapse.pipeline.fingerprint import PACKAGE, imports

FLOORS = {
    name: floor
    for floor, names in enumerate(
        (
            ["errors", "files", "progress", "provenance", "similarity"],
            ["config"],
            ["pipeline"],
            ["recording", "store"],
            ["corpus", "model", "theory"],
            ["training", "probes", "checks"],
            ["launch"],
            ["analysis"],
            ["claims"],
            ["figures"],
            ["report"],
            ["reference", "upkeep"],
            ["jobs", "cli"],
        )
    )
    for name in names
}
"""How high each room of the package stands; nothing imports from a floor above its own."""
APART = [{"training", "probes"}, {"training", "checks"}, {"corpus", "model"}]
"""Rooms of one floor that do not import each other."""

MODULES = {
    ".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts).removesuffix(".__init__"): path
    for path in sorted(PACKAGE.rglob("*.py"))
}


def part(module: str) -> str:
    return module.split(".")[1]


def test_every_room_has_its_floor() -> None:
    assert {part(module) for module in MODULES if "." in module} == set(FLOORS)


@pytest.mark.parametrize("module", [name for name in MODULES if "." in name])
def test_no_import_goes_up(module: str) -> None:
    below = {part(name) for name in imports(module) if "." in name}
    assert not {name for name in below if FLOORS[name] > FLOORS[part(module)]}
    for rooms in APART:
        if part(module) in rooms:
            assert not below & (rooms - {part(module)})


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


LIGHT_ROOMS = {"config", "pipeline", "store", "analysis", "claims", "figures", "report", "upkeep", "jobs", "cli"}
LIGHT = [module for module in MODULES if "." in module and part(module) in LIGHT_ROOMS] + [
    "collapse.recording.statistics",
    "collapse.reference",
]


def test_light_modules_import_neither_torch_nor_datasets() -> None:
    script = f"import sys, {', '.join(LIGHT)}\nprint(*{{'torch', 'datasets', 'deepspeed'}} & set(sys.modules))"
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == []


def test_no_module_is_too_long() -> None:
    lengths = {module: len(path.read_text(encoding="utf-8").splitlines()) for module, path in MODULES.items()}
    assert not {module: length for module, length in lengths.items() if length > 400}


WORKFLOW = [PACKAGE.parents[1] / "Snakefile", *(PACKAGE.parents[1] / "workflow/rules").glob("*.smk")]


def test_parsing_the_workflow_imports_pipeline_and_config_only() -> None:
    """A login node is shared: what Snakefile and rules import stays light. A hook imports when it is called."""
    text = "\n".join(path.read_text(encoding="utf-8") for path in WORKFLOW)
    names = set(re.findall(r"^from (collapse\.[\w.]+) import", text, flags=re.MULTILINE))
    assert {part(name) for name in names} == {"config", "pipeline"}
    heavy = {"torch", "deepspeed", "datasets", "numpy", "scipy", "pandas", "xarray", "zarr", "matplotlib"}
    script = f"""
import sys, {", ".join(names)}
print(*{{name.split(".")[1] for name in sys.modules if name.startswith("collapse.")}}, *{heavy} & set(sys.modules))
"""
    ran = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert set(ran.stdout.split()) <= {"config", "pipeline", "errors", "files"}


def test_rules_are_few_and_short() -> None:
    """A rule says what depends on what; how is a command's business."""
    rules: dict[str, list[str]] = {}
    for path in WORKFLOW:
        for name, body in re.findall(r"^rule (\w+):\n((?:    .*\n|\n(?=    ))+)", path.read_text(), flags=re.MULTILINE):
            rules[name] = body.splitlines()
    assert len(rules) <= 14
    statements = {name: sum(not line.endswith(":") for line in body) for name, body in rules.items()}
    assert not {name: lines for name, lines in statements.items() if lines > 20}
    commands = [line for body in rules.values() for line in body if "collapse " in line]
    assert len(commands) == len(rules) - 2 and all(len(command) <= 120 for command in commands)


def test_snakemake_lints_nothing_else() -> None:
    """One environment serves all rules. The config's copy is no parameter: what a job needs of it is its `spec`."""
    root = PACKAGE.parents[1]
    command = [sys.executable, "-m", "snakemake", "--lint", "--nolock"]
    found = subprocess.run(command, cwd=root, capture_output=True, text=True)
    titles = set(re.findall(r"^    \* (.*?):?$", found.stderr, flags=re.MULTILINE))
    assert titles == {
        "Specify a conda environment or container for each rule.",
        "Shell command directly uses variable CONFIG from outside of the rule",
    }


def test_tests_mirror_the_package() -> None:
    tests = Path(__file__).parent
    assert not {module for module in FLOORS if (PACKAGE / module).is_dir() and not (tests / module).is_dir()}
