"""Events of prompts: requests to models, their replies, and what is shown while they come."""

from __future__ import annotations

from base64 import b64decode
from dataclasses import dataclass, field
from typing import Any, ClassVar, Literal

from toolcrib.ledger.events import Event
from toolcrib.ledger.kept_text import KeptText
from toolcrib.prices.cost import Cost
from toolcrib.tools.citations import CitedSource, GeneratedFile
from toolcrib.tools.identity import ToolRef
from toolcrib.vfs.mount import StagedFile

ModelStatus = Literal["completed", "paused", "incomplete", "failed", "refused", "empty"]
"""What came of a model request: an answer or calls, a pause after which the provider goes on, or
why nothing can follow from it.
"""


TurnOutcome = Literal["completed", "waiting", "failed", "cancelled"]
"""How it stands with a prompt when nobody works on it here any more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class KeptAttachment:
    """An attachment of a prompt, by which later turns say it again: the id that the provider gave
    it, or the artifact with its content.
    """

    content: Literal["text", "file", "image"]
    name: str | None = None
    media_type: str | None = None
    file_id: str | None = None
    artifact_id: str | None = None
    """The artifact is the text, or the bytes as base64. Equal content has one artifact."""
    artifact_digest: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStarted(Event):
    """A prompt goes to a model. `digest` is of all that was rendered, attachments included."""

    kind: ClassVar[str] = "prompt.started"
    turn: int
    prompt_name: str
    text: str
    digest: str
    adapter: str
    model: str
    parent_call_id: str | None = None
    """The call that evaluates the prompt: in its handler, in a hook, or in an approver."""
    parent_turn: int | None = None
    """The turn of that call."""
    parent_tool: str | None = None
    """The tool of that call."""
    token_limits: dict[str, int] | None = None
    """`max_tokens` of its budget and `max_output_tokens` of each request, where they are set."""
    principal: str | None = None
    """Who asked, and so who stands behind every call that the model makes."""
    transport: str | None = None
    instructions: str | None = None
    """What the host told the model apart from the text."""
    attachments: tuple[KeptAttachment, ...] = ()
    tool_options: dict[str, dict[str, str]] | None = None
    """By the name of a hosted tool, the options that a function gave for this turn, without
    secrets."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptResumed(Event):
    """Somebody goes on with a prompt that waited or was cut off; perhaps somebody else."""

    kind: ClassVar[str] = "prompt.resumed"
    turn: int
    prompt_name: str
    adapter: str
    model: str
    parent_call_id: str | None = None
    principal: str | None = None
    transport: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolWithheld(Event):
    """A tool was not offered to the model: one that the provider runs, because the session forbids
    it or the provider has no such kind, or one of the host's that could not be mounted.
    """

    kind: ClassVar[str] = "tool.withheld"
    turn: int
    tool: ToolRef
    reason: str
    replaced_by: ToolRef | None = None
    """The local tool that is offered in its place."""
    sections: tuple[str, ...] = ()
    """The sections of the prompt that were left out with it, by path."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesStaged(Event):
    """Files of the host were given to a tool that the provider runs. Going on with the turn uses
    them again.
    """

    kind: ClassVar[str] = "files.staged"
    turn: int
    tool: str
    container_id: str | None
    """None for a container that the provider makes itself."""
    files: tuple[StagedFile, ...]
    empty: tuple[str, ...] = ()
    """Files of no bytes: there was nothing to give."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FilesCited(Event):
    """A later message cites files of a call that the provider ran and whose end is recorded: these
    are all its files, known by now.
    """

    kind: ClassVar[str] = "files.cited"
    turn: int
    call_id: str
    tool: str
    files: tuple[GeneratedFile, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerUsed(Event):
    """Code of a turn runs in this container of the provider. Turns that follow use it again while
    it lives.
    """

    kind: ClassVar[str] = "container.used"
    turn: int
    tool: str
    container_id: str
    options: str
    """The digest of the options with which the provider made it."""
    is_nested: bool = False
    """Whether the turn is part of a call: then only the turn itself uses the container again."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ContainerExpired(Event):
    """A container of earlier turns is gone, with its files and variables. The provider makes a new
    one for the next code, and runs in the old one are said again as text.
    """

    kind: ClassVar[str] = "container.expired"
    turn: int
    container_ids: tuple[str, ...]
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class OmittedItem:
    """Something of an earlier turn that a prompt which follows it does not say again."""

    turn: int
    """The earlier turn."""
    what: str
    reason: str


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryOmitted(Event):
    """What a prompt could not say again of the turns that it follows."""

    kind: ClassVar[str] = "history.omitted"
    turn: int
    items: tuple[OmittedItem, ...]


SUMMARY_PROMPT = "toolcrib:summary"
"""The name of the prompt that asks for a summary. It is nothing that a person said."""

CompactionMethod = Literal["provider", "summary"]
"""How a conversation was shortened: by the provider, or by a prompt that asked for a summary."""


@dataclass(frozen=True, slots=True, kw_only=True)
class HistoryCompacted(Event):
    """The conversation was shortened. Prompts that follow start from this instead of from the turns
    up to `turn`, which stay in the ledger.
    """

    kind: ClassVar[str] = "history.compacted"
    turn: int
    adapter: str
    model: str
    method: CompactionMethod
    items: list[Any]
    """The provider's own items, verbatim; none for a summary."""
    text: str | None = None
    """The summary."""
    request_id: str | None = None
    usage: dict[str, int]
    cost: Cost | None = None
    """What the provider's own compaction cost, where its price is known; a summary is a prompt, and
    its requests have their costs.
    """


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelQueued(Event):
    """The provider took a request and answers it in the background. Who goes on with the turn, here
    or in another process, asks for this response and makes no request of its own.
    """

    kind: ClassVar[str] = "model.queued"
    turn: int
    step: int
    response_id: str
    request_id: str | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelCancelled(Event):
    """A response in the background was cancelled, because the turn was. Going on with the turn
    makes the request again.
    """

    kind: ClassVar[str] = "model.cancelled"
    turn: int
    step: int
    response_id: str
    is_confirmed: bool
    """Whether the provider said that it stopped; otherwise it may have gone on."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelAsked(Event):
    """A request goes to the model. On the bus only; the ledger keeps what is answered."""

    kind: ClassVar[str] = "model.asked"
    turn: int
    step: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelResponded(Event):
    """One model request was answered. `items` are the provider's own, verbatim: they are what a
    conversation is replayed from. Long base64 texts in them, such as pictures, are references to
    those in `kept`. Unless the `status` is `completed`, it is asked again.
    """

    kind: ClassVar[str] = "model.responded"
    turn: int
    step: int
    status: ModelStatus
    response_id: str | None
    request_id: str | None
    model: str | None
    items: list[Any]
    usage: dict[str, int]
    cost: Cost | None = None
    """Of the tokens; None when nobody knows the price."""
    kept: tuple[KeptText, ...] = ()
    """The texts that the items refer to."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ModelRetried(Event):
    """A request to the model failed and is sent again. Tools that the provider runs may have run in
    the failed attempt too.
    """

    kind: ClassVar[str] = "model.retried"
    turn: int
    step: int
    attempt: int
    """The number of the attempt that failed, from 1."""
    reason: str
    request_id: str | None
    """The provider's id of the attempt that failed."""
    pause_seconds: float


@dataclass(frozen=True, slots=True, kw_only=True)
class AnswerRejected(Event):
    """An answer did not fit the output type of its prompt, and the model is asked again."""

    kind: ClassVar[str] = "prompt.answer_rejected"
    turn: int
    prompt_name: str
    problem: str
    """What was wrong with the answer, as the model is told."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptAnswered(Event):
    """A prompt is done: the model gave its answer."""

    kind: ClassVar[str] = "prompt.answered"
    turn: int
    prompt_name: str
    text: str
    sources: tuple[CitedSource, ...] = ()
    """What the answer cites, in order; spans are places in `text`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptStopped(Event):
    """A prompt of a served session ended without an answer: it failed, and can be resumed, or
    somebody cancelled it. What it did before is in the ledger.
    """

    kind: ClassVar[str] = "prompt.stopped"
    turn: int
    outcome: Literal["failed", "cancelled"]
    error: str | None = None
    """What went wrong, for people."""
    reason: str | None = None
    """What went wrong, for programs: an `EvaluationReason`."""
    principal: str | None = None
    """Who cancelled it, or sent another prompt in its place."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TurnEnded(Event):
    """Nobody works on a prompt here any more. On the bus only: the ledger has the answer, or what
    is waited for.
    """

    kind: ClassVar[str] = "turn.ended"
    turn: int
    outcome: TurnOutcome


@dataclass(frozen=True, slots=True, kw_only=True)
class TextDelta(Event):
    """A piece of an answer while it is produced. On the bus only; the ledger keeps the whole."""

    kind: ClassVar[str] = "model.text_delta"
    turn: int
    step: int
    text: str
    is_restart: bool = False
    """The request was made again and the answer came out otherwise: this piece begins it anew, and
    those of the step before it are void."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ReasoningDelta(Event):
    """A piece of the model's visible reasoning while it is produced. On the bus only; the response
    has the whole in `reasoning`.
    """

    kind: ClassVar[str] = "model.reasoning_delta"
    turn: int
    step: int
    index: int
    """Which text of the step it belongs to, from 0: models think in paragraphs with titles."""
    text: str
    is_restart: bool = False
    """This piece begins the text anew, as in `TextDelta`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ArgumentsDelta(Event):
    """A piece of the arguments of a call that this process is to run, while the model writes them.
    On the bus only. The arguments of a tool that takes secrets come in one piece, without them.
    """

    kind: ClassVar[str] = "model.arguments_delta"
    turn: int
    step: int
    call_id: str
    """The id that the call has in the ledger."""
    tool: str
    text: str
    """JSON for a function, free text for a custom tool; empty where the call only begins."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialArguments:
    """The arguments of a call as far as the model has written them."""

    call_id: str
    tool: str
    text: str


@dataclass(frozen=True, slots=True, kw_only=True)
class PartialReply(Event):
    """A reply as far as the model has written it. On the bus never: it is what somebody gets first
    who begins to follow a session in the middle of a reply. The pieces that come next follow it,
    and it takes the place of all earlier ones of its step.
    """

    kind: ClassVar[str] = "model.partial_reply"
    turn: int
    step: int
    text: str = ""
    reasoning: tuple[str, ...] = ()
    """The texts of the reasoning, by their index."""
    calls: tuple[PartialArguments, ...] = ()
    """The calls that this process is to run."""


HostedStatus = Literal[
    "in_progress", "searching", "interpreting", "generating", "completed", "failed", "incomplete"
]
"""How far a provider-run call is. The last three are ends."""


@dataclass(frozen=True, slots=True)
class PartialImage:
    """A picture that is not finished yet. A later one of the same call takes its place."""

    index: int
    """From 0, in the order of the pictures of its call."""
    media_type: str
    base64: str = field(repr=False)

    @property
    def data(self) -> bytes:
        """The picture itself."""
        return b64decode(self.base64)


@dataclass(frozen=True, slots=True, kw_only=True)
class HostedToolProgress(Event):
    """A provider-run call moves on while the answer is produced. On the bus only; the whole is in
    the `ToolInvoked` of the same call.

    Of `code`, `output`, `arguments`, `queries`, `url` and `image` an event has those that it
    brings. The first three are pieces: they follow those that the same call brought before.
    """

    kind: ClassVar[str] = "model.hosted_progress"
    turn: int
    step: int
    call_id: str
    tool: str
    """The name of the tool as the prompt declares it."""
    capability: str
    """The kind of the tool, as in `ToolInvoked`."""
    status: HostedStatus
    code: str | None = None
    """A piece of the program, or of the commands, that it runs."""
    output: str | None = None
    """A piece of what the program printed."""
    arguments: str | None = None
    """A piece of the arguments, as JSON."""
    queries: tuple[str, ...] = ()
    """What it searches for."""
    url: str | None = None
    """The page that it opens."""
    image: PartialImage | None = None
