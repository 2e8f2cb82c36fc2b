"""Every private name of pydantic-ai and of the provider SDKs that Toolcrib uses.

pydantic-ai drops content that it does not know, or fails at it, and has no public hook before its
parser. The classes here turn its private methods into two methods of our own, `read_response` and
`read_stream`, and the functions reach its private attributes. No other module does either.
`check_private_names` reports a release that renamed one of them before a request is made.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cache, reduce
from importlib import import_module
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, ClassVar, Final

from toolcrib.adapters.pydantic_ai.patched_models.stream_filter import StreamFilter
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse, ModelResponsePart
    from pydantic_ai.models import StreamedResponse

LIBRARY: Final = "pydantic-ai-slim"


@dataclass(frozen=True, slots=True)
class PrivateName:
    """A private name of pydantic-ai: the class that has it, and what Toolcrib needs it for."""

    owner: str
    """`module:Class`."""
    name: str
    reason: str


_STREAM: Final = (
    PrivateName(
        "pydantic_ai.models:StreamedResponse",
        "_parts_manager",
        "add parts to a response while it streams",
    ),
    PrivateName(
        "pydantic_ai._parts_manager:ModelResponsePartsManager",
        "handle_part",
        "add parts to a response while it streams",
    ),
    PrivateName(
        "pydantic_ai._parts_manager:ModelResponsePartsManager",
        "get_parts",
        "match results with calls while a response streams",
    ),
)


def _names_of(
    model: str, stream: str, *names: tuple[str, str], attribute: str = "_response"
) -> tuple[PrivateName, ...]:
    return (
        PrivateName(model, "_process_response", "read a response before its content is dropped"),
        *(PrivateName(model, name, reason) for name, reason in names),
        PrivateName(stream, attribute, "read the provider's events before they are dropped"),
        *_STREAM,
    )


_OPEN_STREAM: Final = ("_process_streamed_response", "read a stream before its events are dropped")

PRIVATE_NAMES: Final[Mapping[str, tuple[PrivateName, ...]]] = {
    "anthropic": _names_of(
        "pydantic_ai.models.anthropic:AnthropicModel",
        "pydantic_ai.models.anthropic:AnthropicStreamedResponse",
        _OPEN_STREAM,
        ("_get_enabled_server_tool_names", "keep calls of tools that the request did not enable"),
    ),
    "bedrock": _names_of(
        "pydantic_ai.models.bedrock:BedrockConverseModel",
        "pydantic_ai.models.bedrock:BedrockStreamedResponse",
        attribute="_event_stream",
    ),
    "google": _names_of(
        "pydantic_ai.models.google:GoogleModel",
        "pydantic_ai.models.google:GeminiStreamedResponse",
        _OPEN_STREAM,
    ),
    "groq": _names_of(
        "pydantic_ai.models.groq:GroqModel",
        "pydantic_ai.models.groq:GroqStreamedResponse",
        _OPEN_STREAM,
    ),
    "responses": _names_of(
        "pydantic_ai.models.openai:OpenAIResponsesModel",
        "pydantic_ai.models.openai:OpenAIResponsesStreamedResponse",
        _OPEN_STREAM,
    ),
    "google_interactions": (
        PrivateName(
            "pydantic_ai.models:Model",
            "_get_instruction_parts",
            "send the instructions of a request",
        ),
        PrivateName(
            "pydantic_ai.models:StreamedResponse",
            "_get_event_iterator",
            "stream interactions: subclasses must implement it",
        ),
        PrivateName(
            "pydantic_ai.models:StreamedResponse", "_usage", "report the usage of interactions"
        ),
        PrivateName(
            "pydantic_ai._parts_manager:ModelResponsePartsManager",
            "handle_text_delta",
            "stream the text of interactions",
        ),
        *_STREAM,
    ),
    "models": (
        PrivateName(
            "pydantic_ai.models:Model",
            "_refresh_http_client",
            "renew connections of an event loop that is closed",
        ),
    ),
}
"""The private names of pydantic-ai by the module that needs them."""


@cache
def check_private_names(module: str) -> None:
    """Raise `UsageError` when pydantic-ai lacks a private name that `module` needs."""
    for private in PRIVATE_NAMES[module]:
        path, _, class_name = private.owner.partition(":")
        try:
            owner: Any = getattr(import_module(path), class_name)
        except (ImportError, AttributeError) as error:
            raise _missing(f"{path}.{class_name}", private.reason) from error
        # A dataclass field without a default is no attribute of its class.
        if not hasattr(owner, private.name) and private.name not in _fields(owner):
            raise _missing(f"{path}.{class_name}.{private.name}", private.reason)


def _fields(owner: Any) -> Mapping[str, Any]:
    return getattr(owner, "__dataclass_fields__", {})


def _missing(name: str, reason: str) -> UsageError:
    return UsageError(
        f"{LIBRARY} {version(LIBRARY)} has no {name}, which Toolcrib needs to {reason}; install a "
        f"version that toolcrib[pydantic-ai] allows"
    )


class ModelCopy:
    """A model with the attributes of another one. Derived classes add the other one's class.

    The attributes are shared, connections included, because a user's own class may have any
    constructor; the original stays as it is.
    """

    def __init__(self, original: Any, **changes: Any) -> None:
        attributes: dict[str, Any] = original.__dict__
        vars(self).update(attributes, **changes)


class PatchedModel(ModelCopy, ABC):
    """A model that reads the provider's content before pydantic-ai does."""

    shared_options: ClassVar[frozenset[str]] = frozenset()
    """The options that pydantic-ai's parsers of whole and of streamed responses have in common."""
    raises_failures: bool = False
    """Whether a response that says that the provider failed is raised as an error."""

    @abstractmethod
    def read_response(self, response: Any, parse: Callable[[Any], ModelResponse]) -> ModelResponse:
        """The whole response; `parse` is pydantic-ai's parser."""

    @abstractmethod
    def read_stream(
        self, streamed: StreamedResponse, parse: Callable[[Any], ModelResponse]
    ) -> None:
        """Filter the events of a response that is about to stream; `parse` reads a whole one."""

    def _process_response(self, response: Any, *args: Any, **options: Any) -> Any:
        parent: Any = super()

        def parse(known: Any) -> ModelResponse:
            return parent._process_response(known, *args, **options)

        return self.read_response(response, parse)

    async def _process_streamed_response(self, stream: Any, *args: Any, **options: Any) -> Any:
        parent: Any = super()
        streamed = await parent._process_streamed_response(stream, *args, **options)
        shared = {name: options[name] for name in self.shared_options & options.keys()}
        self.read_stream(streamed, lambda whole: self._process_response(whole, *args, **shared))
        return streamed


class PatchedServerToolModel(PatchedModel):
    """The same for Anthropic, whose calls of tools that nobody enabled are kept too."""

    shared_options = frozenset({"code_execution_in_open_turn"})

    def _get_enabled_server_tool_names(self, *args: Any, **options: Any) -> Any:
        return _EveryName()


class AsyncPatchedModel(ModelCopy, ABC):
    """The same for Bedrock, whose parser is async and whose streams are opened in public."""

    @abstractmethod
    async def read_response(
        self, response: Any, parse: Callable[[Any], Awaitable[ModelResponse]]
    ) -> ModelResponse:
        """The whole response; `parse` is pydantic-ai's parser."""

    async def _process_response(self, response: Any) -> Any:
        parent: Any = super()
        return await self.read_response(response, parent._process_response)


class _EveryName(frozenset[str]):
    def __contains__(self, name: object) -> bool:
        return True


class FilteredStream:
    """A provider's stream whose events each become any number of events.

    It is closed as pydantic-ai closes its own. `at_end` runs once pydantic-ai has read all events.
    """

    def __init__(self, stream: Any, reader: StreamFilter) -> None:
        self.source = stream.source
        self._stream = stream
        self._reader = reader

    async def aclose(self) -> None:
        """Close the stream."""
        await self._stream.aclose()

    async def __aiter__(self) -> AsyncIterator[Any]:
        async for event in self._stream:
            for piece in self._reader.read(event):
                yield piece
        for piece in self._reader.end():
            yield piece


class FilteredEventStream:
    """The same for boto's event streams, which are iterated in a worker thread."""

    def __init__(self, stream: Any, reader: StreamFilter) -> None:
        # pydantic-ai closes the connection below the stream where boto's stream has one.
        self._raw_stream = getattr(stream, "_raw_stream", None)
        self._stream = stream
        self._reader = reader

    def __iter__(self) -> Iterator[Any]:
        for event in self._stream:
            yield from self._reader.read(event)
        yield from self._reader.end()

    def close(self) -> None:
        """Close the stream."""
        self._stream.close()


def filter_stream(streamed: Any, reader: StreamFilter) -> None:
    """Filter the events of a response that is about to stream."""
    streamed._response = FilteredStream(streamed._response, reader)


def filter_event_stream(streamed: Any, reader: StreamFilter) -> None:
    """Filter boto's events of a response that is about to stream."""
    streamed._event_stream = FilteredEventStream(streamed._event_stream, reader)


def add_part(streamed: Any, part: ModelResponsePart, key: Any = None) -> None:
    """Add a part to a response that streams, or replace the part with the same key."""
    streamed._parts_manager.handle_part(vendor_part_id=key, part=part)


def stream_parts(streamed: Any) -> list[ModelResponsePart]:
    """The parts that a response has so far. They are its own: what is changed here is changed."""
    return streamed._parts_manager.get_parts()


def revise_response(streamed: Any, revise: Callable[[ModelResponse], ModelResponse]) -> None:
    """Let `revise` have the last word on the response that a stream comes to."""
    get = streamed.get
    streamed.get = lambda: revise(get())


def as_streamed(streamed: ModelResponse, whole: ModelResponse) -> ModelResponse:
    """The response that was streamed, with the content of the whole one."""
    if streamed.state == "interrupted":
        return streamed
    return replace(
        streamed,
        parts=whole.parts,
        usage=whole.usage,
        model_name=whole.model_name,
        provider_response_id=whole.provider_response_id,
        provider_details={**(streamed.provider_details or {}), **(whole.provider_details or {})},
        finish_reason=whole.finish_reason,
        state=whole.state,
    )


def instruction_texts(model: Any, messages: Any, parameters: Any) -> list[str]:
    """The instructions of a request, as pydantic-ai collects them."""
    return [part.content for part in model._get_instruction_parts(messages, parameters) or ()]


def refresh_connections(model: Any) -> None:
    """Give a model new connections if its own belong to a closed event loop, as agents do."""
    check_private_names("models")
    refresh = getattr(model, "_refresh_http_client", None)
    if callable(refresh):
        refresh()


_CLIENT_KEYS: Final = (
    "api_key",
    "auth_token",
    # google-genai
    "_api_client.api_key",
    # mistralai
    "sdk_configuration.security.api_key",
    # botocore: its clients have no public way to their credentials
    "_request_signer._credentials.secret_key",
    "_request_signer._credentials.token",
    "_request_signer._auth_token.token",
)
"""Where the clients of the SDKs keep their keys."""


def client_keys(client: Any) -> Iterator[str]:
    """The keys that a client of an SDK sends, for redaction."""
    if type(client).__module__ == "botocore.client":
        _check_botocore(client)
    for path in _CLIENT_KEYS:
        # A client may fetch its credentials when they are read, and fail.
        with suppress(Exception):
            key = reduce(getattr, path.split("."), client)
            if isinstance(key, str) and key:
                yield key


def _check_botocore(client: Any) -> None:
    if not hasattr(getattr(client, "_request_signer", None), "_credentials"):
        raise UsageError(
            f"a client of botocore {version('botocore')} has no _request_signer._credentials, "
            "which Toolcrib needs to keep its keys out of errors; install an earlier botocore"
        )
