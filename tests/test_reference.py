import json
import re
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from collapse.config.root import load
from collapse.reference import config_page, config_schema

CONFIG = Path(__file__).parents[1] / "config"


def test_every_key_is_explained() -> None:
    for definition in json.loads(config_schema())["$defs"].values():
        for key in definition["properties"]:
            assert re.search(rf"^\| `{key}` \|.*\| .+ \|$", config_page(), flags=re.MULTILINE)
    assert "Selects the kind." in config_page()
    for section in re.findall(r"^## .*?\n\n(.*)\n", config_page(), flags=re.MULTILINE):
        assert section.endswith(".")


@pytest.mark.parametrize("path", [CONFIG / "config.yaml", CONFIG / "paper.yaml"], ids=lambda path: path.stem)
def test_the_schema_accepts_valid_configs(path: Path) -> None:
    Draft202012Validator(json.loads(config_schema())).validate(load(path).canonical())


@pytest.mark.parametrize(
    ("section", "key", "value"),
    [("model", "layers", 0), ("model", "depth", 3), ("training", "lr", "fast"), ("figures", "font_scale", -1)],
)
def test_the_schema_refuses_what_the_sections_refuse(section: str, key: str, value: Any) -> None:
    config = load(CONFIG / "config.yaml").canonical()
    config[section][key] = value
    assert not Draft202012Validator(json.loads(config_schema())).is_valid(config)
