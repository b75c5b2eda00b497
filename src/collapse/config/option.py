"""Config sections as options of a stage's command."""

from typing import TypeVar

from pydantic import ValidationError
from pydantic_core import from_json

from collapse.config.base import Section, describe
from collapse.errors import CollapseError

T = TypeVar("T", bound=Section)


def parse_option(section: type[T], option: str, text: str) -> T:
    """The validated section that a command was given as JSON.

    Args:
        section: What it should be.
        option: Name of the option, such as `--style`, for the error.
        text: What was given.

    Raises:
        CollapseError: where it is not JSON or does not fit the section; all problems are named.
    """
    try:
        raw = from_json(text)
        return section.model_validate(raw)
    except ValidationError as error:
        raise CollapseError(f"{option}: " + "; ".join(describe(error, raw))) from None
    except ValueError as error:
        raise CollapseError(f"{option}: should be JSON: {error} (got {text[:80]!r})") from None
