"""What every config section shares: strict keys, the number types, and errors that read as sentences."""

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, Any

import yaml
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError

from collapse.errors import CollapseError


class Section(BaseModel):
    """A config section: immutable, extra keys forbidden, infinities and NaN rejected, defaults validated."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False, use_attribute_docstrings=True)

    def canonical(self) -> dict[str, Any]:
        """The section as plain builtins: equal for equal values, in whatever notation YAML gives them."""
        return self.model_dump(mode="json")


class ConfigError(CollapseError, ValueError):
    """Everything that is wrong with a config, one line `key: what was wrong (got ...)` per problem."""

    def __init__(self, problems: list[str], source: str = "config") -> None:
        self.problems = problems
        self.source = source
        count = f"{len(problems)} problem{'s' if len(problems) != 1 else ''}"
        super().__init__(f"{source}: {count}\n" + "\n".join(f"  {p}" for p in problems))


def _no_bool(value: object) -> object:
    """Reject booleans, which Python accepts as integers: `yes` and `true` in YAML are not numbers."""
    if isinstance(value, bool):
        raise ValueError("should be a number, not a boolean")
    return value


Integer = Annotated[int, BeforeValidator(_no_bool)]
Real = Annotated[float, BeforeValidator(_no_bool)]
PositiveInt = Annotated[Integer, Field(gt=0)]
NonNegativeInt = Annotated[Integer, Field(ge=0)]
PositiveReal = Annotated[Real, Field(gt=0)]
NonNegativeReal = Annotated[Real, Field(ge=0)]
Fraction = Annotated[Real, Field(ge=0, le=1)]
Sha256 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


def _key(location: tuple[int | str, ...], raw: object) -> str:
    """A pydantic location as the key that the user wrote, such as `grid.extra[2].lr`; omits the tags of unions."""
    key, node = "", raw
    for depth, part in enumerate(location):
        last = depth == len(location) - 1
        if isinstance(part, int):
            key += f"[{part}]"
            node = node[part] if isinstance(node, list) and part < len(node) else None
        elif isinstance(node, Mapping) and part not in node and not last:
            continue  # the tag of a union, not a key
        else:
            key += f".{part}" if key else part
            node = node.get(part) if isinstance(node, Mapping) else None
    return key or "(top level)"


def _got(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def read_yaml(path: Path) -> Any:
    """Content of a YAML file.

    Raises:
        ConfigError: if the file cannot be read or is not valid YAML.
    """
    try:
        return yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError([f"(file): cannot be read: {error.strerror}"], str(path)) from None
    except (yaml.YAMLError, UnicodeDecodeError) as error:
        raise ConfigError([f"(file): is not valid YAML: {error}"], str(path)) from None


def describe(error: ValidationError, raw: object, prefix: str = "", page: str = "config/README.md") -> Iterator[str]:
    """One line `key: what was wrong (got ...)` per problem of a pydantic error; `page` is where users find the keys."""
    for problem in error.errors(include_url=False):
        key = _key(problem["loc"], raw)
        if prefix:
            key = prefix if key == "(top level)" else f"{prefix}.{key}"
        kind = problem["type"]
        if kind == "missing":
            yield f"{key}: this key is required, and is missing"
        elif kind == "extra_forbidden":
            yield f"{key}: unknown key; see {page} for those that exist (got {_got(problem['input'])})"
        else:
            message = problem["msg"].removeprefix("Value error, ")
            message = message[:1].lower() + message[1:]
            yield f"{key}: {message}" + ("" if "(got " in message else f" (got {_got(problem['input'])})")
