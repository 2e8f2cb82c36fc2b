"""What a front end shows of one turn, in words that no protocol owns."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

if TYPE_CHECKING:
    from collections.abc import Mapping

    from toolcrib.runtime.approval_messages import ApprovalFacts
    from toolcrib.runtime.messages import PromptResult

ProseKind = Literal["text", "reasoning"]
CallEnding = Literal["done", "failed", "denied"]


@dataclass(frozen=True, slots=True)
class TurnBegun:
    """The turn has its number."""

    session_id: str
    turn: int


@dataclass(frozen=True, slots=True)
class StepBegun:
    """A request goes to the model."""

    step: int


@dataclass(frozen=True, slots=True)
class StepReset:
    """The model's reply does not count: what came of it is void, and it is asked again."""

    step: int


@dataclass(frozen=True, slots=True)
class StepEnded:
    """The reply to a request is there, and its calls have ended or wait."""

    step: int


@dataclass(frozen=True, slots=True)
class ProseBegun:
    """Text or reasoning begins."""

    kind: ProseKind
    part_id: str


@dataclass(frozen=True, slots=True)
class ProsePiece:
    """A piece of text or reasoning."""

    kind: ProseKind
    part_id: str
    text: str


@dataclass(frozen=True, slots=True)
class ProseEnded:
    """Text or reasoning is whole."""

    kind: ProseKind
    part_id: str


@dataclass(frozen=True, slots=True)
class CallBegun:
    """The model begins to write a call, or its provider to run one."""

    call_id: str
    tool: str
    is_hosted: bool = False


@dataclass(frozen=True, slots=True)
class ArgumentsPiece:
    """A piece of the arguments of a call, as JSON."""

    call_id: str
    text: str


@dataclass(frozen=True, slots=True)
class CallReady:
    """The arguments of a call are whole."""

    call_id: str
    tool: str
    arguments: Any
    is_hosted: bool = False


@dataclass(frozen=True, slots=True)
class CallProgress:
    """Something of a running call to watch: `what` says which, `facts` holds it."""

    call_id: str
    tool: str
    what: Literal["progress", "output", "emitted", "hosted"]
    facts: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class CallOver:
    """A call is over. `output` is its value, or what the model reads where it has none."""

    call_id: str
    tool: str
    ending: CallEnding
    output: Any
    message: str
    is_hosted: bool = False
    failure_kind: str | None = None
    artifact_id: str | None = None


@dataclass(frozen=True, slots=True)
class ApprovalShown:
    """A call waits for a decision. Only who may decide is asked for one."""

    approval: ApprovalFacts
    may_decide: bool


@dataclass(frozen=True, slots=True)
class QuestionShown:
    """A running call asks the person something, or the question is over. It is answered with the
    operation `questions.answer`.
    """

    question_id: str
    call_id: str
    tool: str = ""
    text: str = ""
    schema: Mapping[str, Any] | None = None
    is_secret: bool = False
    is_open: bool = True


@dataclass(frozen=True, slots=True)
class PictureShown:
    """A picture that the provider made, as base64; with `artifact_id`, it has yet to be loaded."""

    session_id: str
    call_id: str
    media_type: str
    base64: str = field(repr=False)
    artifact_id: str | None = None

    @property
    def url(self) -> str:
        """The picture as an address."""
        return f"data:{self.media_type};base64,{self.base64}"


@dataclass(frozen=True, slots=True)
class SourceShown:
    """The answer cites a page or a file."""

    source_id: str
    title: str
    url: str | None = None
    file_name: str | None = None


@dataclass(frozen=True, slots=True)
class ClientCallsWait:
    """The turn goes on when the front end has sent the results of these calls."""

    call_ids: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class TurnOver:
    """Nothing follows: the result, which may be that the turn waits."""

    result: PromptResult


TurnPart: TypeAlias = (
    TurnBegun
    | StepBegun
    | StepReset
    | StepEnded
    | ProseBegun
    | ProsePiece
    | ProseEnded
    | CallBegun
    | ArgumentsPiece
    | CallReady
    | CallProgress
    | CallOver
    | ApprovalShown
    | QuestionShown
    | PictureShown
    | SourceShown
    | ClientCallsWait
    | TurnOver
)
