"""Scenarios: the YAML format of scripted answers, turn by turn."""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path
from typing import Annotated, Final

from annotated_types import MinLen
from pydantic import ConfigDict, Field, JsonValue, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked

from toolcrib.errors import InvalidYaml, UsageError
from toolcrib.yaml_source import read_yaml

_CONFIG: Final = ConfigDict(extra="forbid")
_NAME: Final = r"^[A-Za-z_][A-Za-z0-9_-]*$"


@checked(frozen=True, config=_CONFIG)
class ScriptedCall:
    """A call of a tool. Its answer is named by `as`, or else by the tool."""

    tool: str
    arguments: dict[str, JsonValue] = Field(default_factory=dict[str, JsonValue])
    named: str | None = Field(default=None, alias="as", pattern=_NAME)

    @property
    def name(self) -> str:
        """The name of its answer."""
        return self.named or self.tool


@checked(frozen=True, config=_CONFIG)
class ScriptedStep:
    """One proposal: calls of tools, or text. Of several texts, the backend sends the first one that
    lacks no fact. It sends `answer` as JSON, or `otherwise` when `answer` lacks a fact. It skips a
    step whose `only_if` is missing, empty, false or zero.
    """

    calls: Annotated[list[ScriptedCall], MinLen(1)] | None = None
    say: str | list[str] | None = None
    answer: JsonValue = None
    otherwise: JsonValue = None
    think: str | None = None
    only_if: str | None = None

    @property
    def texts(self) -> list[str]:
        """The texts in order of preference."""
        return [self.say] if isinstance(self.say, str) else list(self.say or ())


@checked(frozen=True, config=_CONFIG)
class ScriptedTurn:
    """The steps after a message of the user. With `when`, the message must contain that text."""

    steps: Annotated[list[ScriptedStep], MinLen(1)]
    when: str | None = None


@checked(frozen=True, config=_CONFIG)
class Scenario:
    """A scenario. `name` is the model name that clients send. Requests with images are refused
    unless `reads_images` says that the answers are written for them.
    """

    name: str
    turns: Annotated[list[ScriptedTurn], MinLen(1)]
    about: str = ""
    reads_images: bool = False


def load_scenario(path: str | os.PathLike[str]) -> Scenario:
    """Read a file. The `UsageError` names the file, the line and the fault."""
    file = Path(path)
    try:
        text = file.read_text("utf-8-sig")
    except OSError as error:
        raise UsageError(f"{file}: cannot be read: {error.strerror}") from None
    return read_scenario(text, str(file))


def read_scenario(text: str, file: str = "the scenario") -> Scenario:
    """Read the text of a scenario. Raises `UsageError`."""
    try:
        document = read_yaml(text)
    except InvalidYaml as error:
        raise UsageError(f"{file}:{error.line or 1}: {error}") from None
    try:
        return _adapter().validate_python(document.plain())
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        line = document.line_at(first["loc"])
        place = ".".join(map(str, first["loc"]))
        raise UsageError(f"{file}:{line}: {place}: {first['msg']}") from None


@cache
def _adapter() -> TypeAdapter[Scenario]:
    return TypeAdapter(Scenario)
