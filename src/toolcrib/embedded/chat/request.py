"""The request body of `POST /chat/completions`, and the Responses request that it becomes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, assert_never, cast

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import Discriminator, TypeAdapter
from pydantic.dataclasses import dataclass as checked

from toolcrib.embedded.backend import Sampling
from toolcrib.embedded.chat.messages import (
    LENIENT,
    ChatRequestMessage,
    ToolName,
    items_of_messages,
)
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.request import Metadata, read_body

MAX_STOP: Final = 16
UNSUPPORTED_CHAT: Final = {
    "functions": "send the functions as 'tools'",
    "function_call": "use 'tool_choice'",
    "audio": "the answer is text",
}
"""Parameters that are refused, because ignoring them would change the request's meaning."""

_Penalty: TypeAlias = Annotated[float, Ge(-2), Le(2)]
_StopText: TypeAlias = Annotated[str, MinLen(1)]


@checked(frozen=True, config=LENIENT)
class ChatFunction:
    """The declaration of a function."""

    name: ToolName
    description: str | None = None
    parameters: dict[str, Any] | None = None
    strict: bool | None = None


@checked(frozen=True, config=LENIENT)
class ChatFunctionTool:
    """A function that the client runs."""

    type: Literal["function"]
    function: ChatFunction


@checked(frozen=True, config=LENIENT)
class ChatCustom:
    """The declaration of a custom tool."""

    name: ToolName
    description: str | None = None
    format: dict[str, Any] | None = None


@checked(frozen=True, config=LENIENT)
class ChatCustomTool:
    """A tool that the client runs, with any text as its input."""

    type: Literal["custom"]
    custom: ChatCustom


@checked(frozen=True, config=LENIENT)
class ChatToolName:
    """The name of a tool."""

    name: ToolName


@checked(frozen=True, config=LENIENT)
class NamedFunctionChoice:
    """The choice of a function."""

    type: Literal["function"]
    function: ChatToolName


@checked(frozen=True, config=LENIENT)
class NamedCustomChoice:
    """The choice of a custom tool."""

    type: Literal["custom"]
    custom: ChatToolName


NamedChoice: TypeAlias = Annotated[NamedFunctionChoice | NamedCustomChoice, Discriminator("type")]


@checked(frozen=True, config=LENIENT)
class AllowedChatTools:
    """Some of the tools, and whether one of them must be called."""

    mode: Literal["auto", "required"]
    tools: Annotated[list[NamedChoice], MinLen(1)]


@checked(frozen=True, config=LENIENT)
class AllowedToolsChoice:
    """The choice of some of the tools."""

    type: Literal["allowed_tools"]
    allowed_tools: AllowedChatTools


ChatToolChoice: TypeAlias = (
    Literal["auto", "none", "required"]
    | Annotated[NamedFunctionChoice | NamedCustomChoice | AllowedToolsChoice, Discriminator("type")]
)


@checked(frozen=True, config=LENIENT)
class PlainFormat:
    """Text, or any JSON object."""

    type: Literal["text", "json_object"]


@checked(frozen=True, config=LENIENT)
class ChatSchema:
    """A JSON Schema with a name."""

    name: Annotated[str, MinLen(1)]
    schema: dict[str, Any]
    description: str | None = None
    strict: bool | None = None


@checked(frozen=True, config=LENIENT)
class SchemaFormat:
    """JSON of a schema."""

    type: Literal["json_schema"]
    json_schema: ChatSchema


@checked(frozen=True, config=LENIENT)
class ChatStreamOptions:
    """Options of a stream."""

    include_usage: bool | None = None


@checked(frozen=True, config=LENIENT)
class WebSearchOptions:
    """Options of a web search that the provider runs."""

    search_context_size: Literal["low", "medium", "high"] | None = None
    user_location: dict[str, Any] | None = None


@checked(frozen=True, config=LENIENT)
class CompletionParameters:
    """The parameters of a request. Those after `user` are accepted and have no effect."""

    model: str
    messages: Annotated[list[ChatRequestMessage], MinLen(1)]
    tools: list[Annotated[ChatFunctionTool | ChatCustomTool, Discriminator("type")]] | None = None
    tool_choice: ChatToolChoice | None = None
    parallel_tool_calls: bool | None = None
    response_format: Annotated[PlainFormat | SchemaFormat, Discriminator("type")] | None = None
    web_search_options: WebSearchOptions | None = None
    max_completion_tokens: Annotated[int, Ge(1)] | None = None
    max_tokens: Annotated[int, Ge(1)] | None = None
    temperature: Annotated[float, Ge(0), Le(2)] | None = None
    top_p: Annotated[float, Ge(0), Le(1)] | None = None
    stop: _StopText | Annotated[list[_StopText], MaxLen(MAX_STOP)] | None = None
    seed: Annotated[int, Ge(-(2**63)), Le(2**63 - 1)] | None = None
    presence_penalty: _Penalty | None = None
    frequency_penalty: _Penalty | None = None
    logprobs: bool | None = None
    top_logprobs: Annotated[int, Ge(0), Le(20)] | None = None
    reasoning_effort: str | None = None
    verbosity: str | None = None
    n: Literal[1] | None = None
    modalities: list[Literal["text"]] | None = None
    stream: bool | None = None
    stream_options: ChatStreamOptions | None = None
    store: bool | None = None
    metadata: Metadata | None = None
    user: str | None = None
    safety_identifier: str | None = None
    service_tier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    prediction: dict[str, Any] | None = None
    logit_bias: dict[str, int] | None = None

    @property
    def has_usage(self) -> bool:
        """Whether the last chunk of the stream shows the token usage."""
        return self.stream_options is not None and self.stream_options.include_usage is True

    @property
    def sampling(self) -> Sampling:
        """The sampling options."""
        stop = (self.stop,) if isinstance(self.stop, str) else tuple(self.stop or ())
        return Sampling(
            stop,
            self.seed,
            self.presence_penalty,
            self.frequency_penalty,
        )


@dataclass(frozen=True, slots=True)
class ReadCompletionParameters:
    """A request, the names of its parameters that nobody here knows, and its messages as sent."""

    request: CompletionParameters
    unknown: tuple[str, ...]
    messages: list[dict[str, Any]]


def read_chat_request(body: object) -> ReadCompletionParameters:
    """Validate a request. The `ApiFault` names the first invalid parameter."""
    sent = cast(dict[str, Any], body) if isinstance(body, dict) else {}
    _refuse(sent)
    request = read_body(_adapter(), cast(object, body))
    if request.max_tokens is not None and request.max_completion_tokens is not None:
        message = "Give 'max_completion_tokens' or 'max_tokens', not both."
        raise invalid(message, "max_tokens")
    if request.top_logprobs is not None and not request.logprobs:
        raise invalid("'top_logprobs' needs 'logprobs': true.", "top_logprobs")
    known = {field.name for field in fields(CompletionParameters)}
    unknown = sorted(
        name for name, value in sent.items() if name not in known and value is not None
    )
    return ReadCompletionParameters(request, tuple(unknown), sent["messages"])


def _refuse(sent: Mapping[str, Any]) -> None:
    for name, instead in UNSUPPORTED_CHAT.items():
        if sent.get(name) is not None:
            raise invalid(f"'{name}' is not supported here: {instead}.", name, "unsupported_value")
    if sent.get("n") not in (None, 1):
        message = "Only one choice is made here: leave out 'n', or send the request again."
        raise invalid(message, "n", "unsupported_value")
    modalities = sent.get("modalities")
    if isinstance(modalities, list) and "audio" in modalities:
        raise invalid("There is no audio here: the answer is text.", "modalities")


@cache
def _adapter() -> TypeAdapter[CompletionParameters]:
    return TypeAdapter(CompletionParameters)


def response_body(request: CompletionParameters) -> dict[str, Any]:
    """The same request for the Responses API, not stored. Raises `ApiFault`."""
    body: dict[str, Any] = {
        "model": request.model,
        "input": items_of_messages(request.messages),
        "tools": _tools(request),
        "tool_choice": _choice(request.tool_choice),
        "parallel_tool_calls": request.parallel_tool_calls,
        "text": _text_options(request),
        "max_output_tokens": request.max_completion_tokens or request.max_tokens,
        "temperature": request.temperature,
        "top_p": request.top_p,
        "reasoning": {"effort": request.reasoning_effort} if request.reasoning_effort else None,
        "metadata": request.metadata,
        "include": ["message.output_text.logprobs"] if request.logprobs else None,
        "top_logprobs": request.top_logprobs,
        "store": False,
    }
    return {name: value for name, value in body.items() if value is not None}


def _tools(request: CompletionParameters) -> list[dict[str, Any]]:
    tools: list[dict[str, Any]] = []
    for tool in request.tools or []:
        match tool:
            case ChatFunctionTool():
                declared = {
                    "description": tool.function.description,
                    "parameters": tool.function.parameters,
                    "strict": tool.function.strict,
                }
                tools.append({"type": "function", "name": tool.function.name, **_given(declared)})
            case ChatCustomTool():
                declared = {
                    "description": tool.custom.description,
                    "format": _grammar(tool.custom.format),
                }
                tools.append({"type": "custom", "name": tool.custom.name, **_given(declared)})
            case _:
                assert_never(tool)
    if request.web_search_options is not None:
        tools.append(_web_search(request.web_search_options))
    return tools


def _given(declared: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in declared.items() if value is not None}


def _grammar(config: dict[str, Any] | None) -> dict[str, Any] | None:
    """The format of a custom tool: a chat request has the grammar one level deeper."""
    grammar = None if config is None else config.get("grammar")
    if config is None or not isinstance(grammar, dict):
        return config
    return {"type": config.get("type"), **cast(dict[str, Any], grammar)}


def _web_search(options: WebSearchOptions) -> dict[str, Any]:
    place = options.user_location or {}
    approximate = place.get("approximate")
    found = cast(dict[str, Any], approximate) if isinstance(approximate, dict) else {}
    location = {"type": "approximate", **found} if place else None
    fields_ = {"search_context_size": options.search_context_size, "user_location": location}
    return {"type": "web_search", **_given(fields_)}


def _choice(choice: ChatToolChoice | None) -> str | dict[str, Any] | None:
    match choice:
        case None | "auto" | "none" | "required":
            return choice
        case NamedFunctionChoice() | NamedCustomChoice():
            return _named(choice)
        case AllowedToolsChoice():
            allowed = choice.allowed_tools
            tools = [_named(tool) for tool in allowed.tools]
            return {"type": "allowed_tools", "mode": allowed.mode, "tools": tools}
        case _:
            assert_never(choice)


def _named(choice: NamedFunctionChoice | NamedCustomChoice) -> dict[str, Any]:
    tool = choice.function if isinstance(choice, NamedFunctionChoice) else choice.custom
    return {"type": choice.type, "name": tool.name}


def _text_options(request: CompletionParameters) -> dict[str, Any] | None:
    text: dict[str, Any] = {"verbosity": request.verbosity} if request.verbosity else {}
    match request.response_format:
        case None:
            pass
        case PlainFormat(type=kind):
            text["format"] = {"type": kind}
        case SchemaFormat(json_schema=schema):
            declared = {"description": schema.description, "strict": schema.strict}
            text["format"] = {
                "type": "json_schema",
                "name": schema.name,
                "schema": schema.schema,
                **_given(declared),
            }
    return text or None
