"""What a brain is: it reads a conversation and proposes what to say and which tools to call."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

Role: TypeAlias = Literal["system", "developer", "user", "assistant"]
Choice: TypeAlias = Literal["auto", "none", "required"]
CutReason: TypeAlias = Literal["max_output_tokens", "content_filter"]


@dataclass(frozen=True, slots=True)
class Offer:
    """A tool that a brain may propose to call. A free-form one takes any text as its input."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    is_freeform: bool = False


@dataclass(frozen=True, slots=True)
class Said:
    """Something that somebody said. Images are `data:` or web addresses."""

    role: Role
    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Called:
    """A call that the brain proposed earlier."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of a call: its text for the model, its value for whoever computes with it, and
    the marks that cite its sources, in their order.
    """

    call_id: str
    name: str
    text: str
    value: Any = None
    marks: tuple[str, ...] = ()


Turn: TypeAlias = Said | Called | Answered


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """How the final text must look. A schema belongs to `json_schema` alone."""

    kind: Literal["text", "json_object", "json_schema"] = "text"
    name: str = "answer"
    schema: Mapping[str, Any] | None = None

    @property
    def is_json(self) -> bool:
        """Whether the text must be JSON."""
        return self.kind != "text"


@dataclass(frozen=True, slots=True)
class Question:
    """All that a brain is asked with. Only tools of `offers` may be proposed; with the choice
    `required` at least one must be, with `none` none.
    """

    model: str
    turns: Sequence[Turn]
    instructions: str | None = None
    offers: Sequence[Offer] = ()
    choice: Choice = "auto"
    is_parallel: bool = True
    output: OutputFormat = OutputFormat()
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None


@dataclass(frozen=True, slots=True)
class Text:
    """A piece of what the brain says. `[S1]` in it cites the source that a tool answered with."""

    text: str


@dataclass(frozen=True, slots=True)
class Thought:
    """A piece of what the brain thinks, apart from what it says."""

    text: str


@dataclass(frozen=True, slots=True)
class Proposed:
    """A call that the brain wants, with its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Spent:
    """How many tokens a proposal took."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The brain had to stop before it was done."""

    reason: CutReason


Piece: TypeAlias = Text | Thought | Proposed | Spent | Cut


class BrainFailed(Exception):
    """A brain could not answer. Its message goes to the client, so it holds no secret."""


class Brain(Protocol):
    """Proposes; whoever asked executes, and asks again with the answers."""

    @property
    def name(self) -> str:
        """The model's name, as clients ask for it."""
        ...

    @property
    def is_scripted(self) -> bool:
        """Whether the answers are written beforehand."""
        ...

    def propose(self, question: Question) -> AsyncIterator[Piece]:
        """The pieces of one proposal, in order. Raises `BrainFailed`."""
        ...

    async def aclose(self) -> None:
        """Let go of what it holds."""
        ...
