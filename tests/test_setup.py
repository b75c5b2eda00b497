"""One source of dependencies: pyproject.toml; what is pinned and what conda installs follow from it."""

import tomllib
from pathlib import Path
from typing import Any

import pytest
import yaml
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]


@pytest.fixture(scope="module")
def project() -> dict[str, Any]:
    return tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]


@pytest.fixture(scope="module")
def pins() -> dict[str, Requirement]:
    lines = (ROOT / "requirements.lock").read_text().splitlines()
    requirements = [Requirement(line) for line in lines if line and not line.startswith("#")]
    return {canonicalize_name(requirement.name): requirement for requirement in requirements}


def test_every_dependency_is_pinned_within_its_bounds(project: dict[str, Any], pins: dict[str, Requirement]) -> None:
    for line in [*project["dependencies"], *project["optional-dependencies"]["dev"]]:
        wanted = Requirement(line)
        (pin,) = pins[canonicalize_name(wanted.name)].specifier
        assert wanted.specifier.contains(pin.version), line


def test_the_lock_pins_everything(pins: dict[str, Requirement]) -> None:
    for requirement in pins.values():
        (pin,) = requirement.specifier
        assert pin.operator == "==" and "+" not in pin.version and "*" not in pin.version, requirement


def test_conda_users_get_the_same(project: dict[str, Any]) -> None:
    environment = yaml.safe_load((ROOT / "environment.yml").read_text())
    python, pip, packages = environment["dependencies"]
    assert python == f"python{project['requires-python']}"
    assert pip == "pip"
    assert packages == {"pip": project["dependencies"]}
    assert environment["name"] == project["name"]
