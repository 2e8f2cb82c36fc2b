"""Options, params and results of computer use, in words that no provider owns."""

from __future__ import annotations

import base64
from dataclasses import dataclass, field
from typing import ClassVar, Literal, TypeAlias, get_args

from toolcrib.errors import InvalidTool
from toolcrib.tools.options import check_choice, check_count
from toolcrib.tools.result import NamedFields

Screen: TypeAlias = Literal["windows", "mac", "linux", "ubuntu", "browser"]


@dataclass(frozen=True, slots=True)
class ComputerConfig:
    """The options of computer use. With a screen it is OpenAI's first generation, which needs all
    three: `ComputerConfig("browser", 1280, 800)`.
    """

    kind: ClassVar[str] = "computer"
    environment: Screen | None = None
    display_width: int | None = None
    display_height: int | None = None

    def __post_init__(self) -> None:
        check_choice("ComputerConfig.environment", self.environment, get_args(Screen))
        check_count("ComputerConfig.display_width", self.display_width, 1, 100_000)
        check_count("ComputerConfig.display_height", self.display_height, 1, 100_000)
        fields = (self.environment, self.display_width, self.display_height)
        if any(each is None for each in fields) and any(each is not None for each in fields):
            raise InvalidTool(
                "ComputerConfig takes environment, display_width and display_height together, or "
                "none of them"
            )


@dataclass(frozen=True, slots=True)
class ScreenPoint:
    """A place on the screen, in pixels."""

    x: int
    y: int


@dataclass(frozen=True, slots=True)
class ComputerAction:
    """One thing to do. `type` says what: `click`, `double_click`, `drag`, `keypress`, `move`,
    `screenshot`, `scroll`, `type`, `wait`; each has some of the fields.
    """

    type: str
    x: int | None = None
    y: int | None = None
    button: str | None = None
    keys: list[str] = field(default_factory=list[str])
    path: list[ScreenPoint] = field(default_factory=list[ScreenPoint])
    scroll_x: int | None = None
    scroll_y: int | None = None
    text: str | None = None


@dataclass(frozen=True, slots=True)
class SafetyCheck:
    """A concern of the provider about a call, for a person to acknowledge."""

    id: str
    code: str | None = None
    message: str | None = None


@dataclass(frozen=True, slots=True)
class ComputerParams:
    """The actions of one call, in order, and the provider's concerns about them."""

    actions: list[ComputerAction]
    safety_checks: list[SafetyCheck] = field(default_factory=list[SafetyCheck])


@dataclass(frozen=True, slots=True)
class Screenshot(NamedFields):
    """The screen after the actions, as base64 text."""

    base64: str = field(repr=False)
    media_type: str = "image/png"

    @classmethod
    def of(cls, data: bytes, media_type: str = "image/png") -> Screenshot:
        """Return the screenshot with these bytes."""
        return cls(base64.b64encode(data).decode(), media_type)

    @property
    def data(self) -> bytes:
        """The image itself."""
        return base64.b64decode(self.base64, validate=True)

    @property
    def url(self) -> str:
        """The image as a `data:` URL."""
        return f"data:{self.media_type};base64,{self.base64}"

    def render(self) -> str:
        """Return one line: the image is not text."""
        return f"a screenshot ({self.media_type})"
