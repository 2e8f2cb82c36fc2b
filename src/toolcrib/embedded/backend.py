"""The model backend protocol: the requests that a backend reads and the output that it proposes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

MessageRole: TypeAlias = Literal["system", "developer", "user", "assistant"]
ToolChoiceMode: TypeAlias = Literal["auto", "none", "required"]
TruncationReason: TypeAlias = Literal["max_output_tokens", "content_filter"]


@dataclass(frozen=True, slots=True)
class BackendTool:
    """The declaration of a tool that a backend may call. A free-form tool takes any text."""

    name: str
    description: str
    parameters: Mapping[str, Any]
    is_freeform: bool = False
    has_sources: bool = False
    """Whether its results have sources, which the answer cites by their marks, such as `[S1]`."""
    makes_files: bool = False
    """Whether it makes files, which the answer links as `sandbox:/mnt/data/NAME`."""


@dataclass(frozen=True, slots=True)
class BackendMessage:
    """A message of the conversation.

    The text has the content of the files of the request. Images are `data:` addresses: the provider
    fetches those that a request names. A backend without `reads_images` gets none.
    """

    role: MessageRole
    text: str
    images: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class BackendCall:
    """A call that the backend proposed earlier."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class BackendCallResult:
    """The result of a call: `text` for a model, `value` for a backend that computes with it.

    `marks` are the marks that cite the sources of the result, in the order of the sources. Images
    are those of a message.
    """

    call_id: str
    name: str
    text: str
    value: Any = None
    marks: tuple[str, ...] = ()
    images: tuple[str, ...] = ()


BackendInput: TypeAlias = BackendMessage | BackendCall | BackendCallResult


@dataclass(frozen=True, slots=True)
class OutputFormat:
    """The format of the final text. Only `json_schema` has a schema."""

    kind: Literal["text", "json_object", "json_schema"] = "text"
    name: str = "answer"
    schema: Mapping[str, Any] | None = None

    @property
    def is_json(self) -> bool:
        """Whether the text must be JSON."""
        return self.kind != "text"


@dataclass(frozen=True, slots=True)
class BackendRequest:
    """One request to a backend.

    The backend may propose calls of `tools` only. With the tool choice `required` it must propose
    at least one call, with `none` it must propose no call.
    """

    model: str
    history: Sequence[BackendInput]
    instructions: str | None = None
    tools: Sequence[BackendTool] = ()
    tool_choice: ToolChoiceMode = "auto"
    is_parallel: bool = True
    output: OutputFormat = OutputFormat()
    max_output_tokens: int | None = None
    temperature: float | None = None
    top_p: float | None = None
    top_logprobs: int | None = None
    """With a number, each token of the text needs its probability, and so many likely others need
    theirs. Only a `LogprobBackend` is asked."""


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """The logarithm of a token's probability, and the most likely tokens at its place. A token may
    be a part of a character: `data` are its bytes then.
    """

    token: str
    logprob: float
    top: tuple[TokenLogprob, ...] = ()
    data: bytes | None = None


@dataclass(frozen=True, slots=True)
class BackendText:
    """A piece of the answer's text. `[S1]` in it cites the source with that mark."""

    text: str
    logprobs: tuple[TokenLogprob, ...] = ()


@dataclass(frozen=True, slots=True)
class BackendReasoning:
    """A piece of the model's reasoning, which is not part of the answer."""

    text: str


@dataclass(frozen=True, slots=True)
class ProposedCall:
    """A call that the backend proposes, with its arguments as JSON text."""

    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class BackendUsage:
    """The tokens that one model request used."""

    input_tokens: int
    output_tokens: int


@dataclass(frozen=True, slots=True)
class Truncation:
    """The answer ended early, for this reason."""

    reason: TruncationReason


BackendOutput: TypeAlias = BackendText | BackendReasoning | ProposedCall | BackendUsage | Truncation


class ModelBackend(Protocol):
    """Answers requests: proposes text and calls. The provider runs the calls and asks again."""

    @property
    def name(self) -> str:
        """The model name that clients send in a request."""
        ...

    @property
    def is_scripted(self) -> bool:
        """Whether the answers were written in advance."""
        ...

    def propose(self, request: BackendRequest) -> AsyncIterator[BackendOutput]:
        """Stream the parts of one answer, in order. Raises `BackendFailed`."""
        ...

    async def aclose(self) -> None:
        """Release the backend's resources."""
        ...


@runtime_checkable
class ImageReader(Protocol):
    """A backend whose model reads images, if `reads_images` is true."""

    @property
    def reads_images(self) -> bool: ...


@runtime_checkable
class LogprobBackend(Protocol):
    """A backend that reports the probabilities of tokens, if `has_logprobs` is true."""

    @property
    def has_logprobs(self) -> bool: ...


def reads_images(backend: ModelBackend) -> bool:
    """Whether the model of a backend reads images."""
    return isinstance(backend, ImageReader) and backend.reads_images


def has_logprobs(backend: ModelBackend) -> bool:
    """Whether a backend reports the probabilities of tokens."""
    return isinstance(backend, LogprobBackend) and backend.has_logprobs
