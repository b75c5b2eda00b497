"""The code fingerprint of a stage: a digest of all code of this package that can change the results of the stage.

It follows the imports of the stage's module statically: it parses files and never imports them. Parts that cannot
change a number do not count: the modules in `SILENT`, comments, docstrings, formatting, messages (the arguments of a
raised exception, the message of an assertion, statements that call `say`), `if TYPE_CHECKING:` blocks, and the stubs
that list the names of a lazy package (a test checks that no module of the package imports a name through such a stub).
"""

import ast
import hashlib
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

PACKAGE = Path(__file__).resolve().parents[1]
"""Folder of the package."""

SILENT = {"collapse.config.execution", "collapse.errors", "collapse.progress"}
"""Modules that change no number: how trainings are executed, and what a user is told."""
_NO_DATA = {".py", ".pyc", ".pyi", ".typed"}


class _Significant(ast.NodeTransformer):
    """Removes the parts that cannot change the results of the code."""

    def visit_Expr(self, node: ast.Expr) -> ast.AST | None:
        value = node.value
        documentation = isinstance(value, ast.Constant) and isinstance(value.value, str)
        message = isinstance(value, ast.Call) and ast.unparse(value.func).rpartition(".")[2] == "say"
        return None if documentation or message else self.generic_visit(node)

    def visit_Raise(self, node: ast.Raise) -> ast.AST:
        if isinstance(node.exc, ast.Call):
            node.exc.args, node.exc.keywords = [], []
        return self.generic_visit(node)

    def visit_Assert(self, node: ast.Assert) -> ast.AST:
        node.msg = None
        return self.generic_visit(node)

    def visit_If(self, node: ast.If) -> ast.AST | list[Any]:
        if ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING"):
            return [self.visit(statement) for statement in node.orelse]
        return self.generic_visit(node)


@cache
def _tree(path: Path) -> ast.Module:
    tree: ast.Module = _Significant().visit(ast.parse(path.read_bytes(), filename=str(path)))
    return tree


def _outline(value: object) -> str:
    """A syntax tree as text without positions and empty fields, which is the same for every Python version."""
    if isinstance(value, ast.AST):
        fields = ((name, field) for name, field in ast.iter_fields(value) if field not in (None, []) and name != "kind")
        return f"{type(value).__name__}({','.join(f'{name}={_outline(field)}' for name, field in fields)})"
    if isinstance(value, list):
        return f"[{','.join(map(_outline, value))}]"
    return repr(value)


@cache
def _code(path: Path) -> bytes:
    """The significant part of a file, as text; cached because stages share many files."""
    return _outline(_tree(path)).encode()


def module_file(name: str, package: Path = PACKAGE) -> Path | None:
    """File of a module of the package by its dotted name; None if the package has no such module."""
    root, *parts = name.split(".")
    base = package.joinpath(*parts)
    if root != package.name or not all(map(str.isidentifier, parts)):
        return None
    candidates = (base / "__init__.py", base.with_suffix(".py"))
    return next((path for path in candidates if path.is_file()), None)


def _named(tree: ast.Module) -> Iterator[str]:
    """Dotted names that a module imports or contains as a string (such as a module that it starts as a process)."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            if node.level:
                raise SyntaxError(
                    f"line {node.lineno}: relative imports are not followed; write the module's full name"
                )
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def _modules(name: str, package: Path) -> list[str]:
    """Modules of the package that an import of a dotted name runs: the packages around it, and the module itself."""
    parts = name.split(".")
    prefixes = (".".join(parts[: end + 1]) for end in range(len(parts)))
    return [prefix for prefix in prefixes if module_file(prefix, package)]


@cache
def imports(module: str, package: Path = PACKAGE) -> frozenset[str]:
    """Modules of the package that a module imports directly, with the packages around each one."""
    path = module_file(module, package)
    if path is None:
        raise ModuleNotFoundError(f"the package {package.name} has no module {module}")
    found = {prefix for name in _named(_tree(path)) for prefix in _modules(name, package)}
    return frozenset(found - {module})


@cache
def closure(module: str, package: Path = PACKAGE) -> tuple[str, ...]:
    """A stage's module, every module directly in it if it is a package, and every module that these import, sorted."""
    waiting, path = _modules(module, package), module_file(module, package)
    if path is not None and path.name == "__init__.py":
        waiting += [f"{module}.{inside.stem}" for inside in path.parent.glob("*.py") if inside != path]
    found: set[str] = set()
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting.extend(imports(name, package))
    return tuple(sorted(found))


def _data_files(folder: Path) -> Iterator[Path]:
    """Templates and other package data beside a module."""
    for path in sorted(folder.iterdir()):
        if path.is_file() and path.suffix not in _NO_DATA and not path.name.startswith(".") and path.name[-1] != "~":
            yield path


@cache
def fingerprint(module: str, package: Path = PACKAGE) -> str:
    """Digest (12 hex digits) of all code and package data that the module of a stage uses, directly or indirectly.

    Args:
        module: dotted name of a module or a package, such as `collapse.training`.
        package: folder of the package.

    Raises:
        ModuleNotFoundError: if the package has no such module.
    """
    if module_file(module, package) is None:
        raise ModuleNotFoundError(f"the package {package.name} has no module {module}")
    total = hashlib.sha256()
    folders = set()
    for name in sorted(set(closure(module, package)) - SILENT):
        path = module_file(name, package)
        assert path is not None
        folders.add(path.parent)
        total.update(f"{name}\0".encode() + _code(path) + b"\n")
    for path in (data for folder in sorted(folders) for data in _data_files(folder)):
        total.update(f"{path.relative_to(package).as_posix()}\0".encode() + path.read_bytes())
    return total.hexdigest()[:12]
