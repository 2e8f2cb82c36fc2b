"""The request body of `POST /responses`, and the response resource that repeats it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeVar, cast

from annotated_types import Ge, Le, MaxLen
from pydantic import ConfigDict, TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as checked
from pydantic_core import to_json

from toolcrib.embedded.backend import OutputFormat
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.errors import ApiFault

T = TypeVar("T")
Item = dict[str, Any]
_CONFIG: Final = ConfigDict(extra="ignore", strict=True)

MAX_METADATA_VALUE: Final = 512
Metadata = Annotated[
    dict[Annotated[str, MaxLen(64)], Annotated[str, MaxLen(MAX_METADATA_VALUE)]], MaxLen(16)
]
INCLUDABLE: Final = frozenset(
    {
        "file_search_call.results",
        "web_search_call.results",
        "web_search_call.action.sources",
        "message.input_image.image_url",
        "message.output_text.logprobs",
        "computer_call_output.output.image_url",
        "code_interpreter_call.outputs",
        "reasoning.encrypted_content",
    }
)
"""The values of `include` that the API has."""
MAX_LOGPROBS: Final = 20
MAX_IGNORED: Final = 20
"""Ignored parameters that a warning names."""
_LONGEST_NAME: Final = 60
_UNPRINTABLE: Final = re.compile(r"[^A-Za-z0-9_.-]")
_TEXT_KEYS: Final = frozenset({"format", "verbosity"})

UNSUPPORTED: Final = {
    "conversation": "use previous_response_id, or send the items again",
    "prompt": "there are no stored prompts here; send the instructions",
    "context_management": "send a shorter conversation, or ask for /responses/compact",
    "messages": "this is the Responses API; send 'input'",
    "functions": "this is the Responses API; send 'tools'",
    "function_call": "this is the Responses API; send 'tool_choice'",
    "response_format": "in the Responses API it is 'text.format'",
    "max_tokens": "in the Responses API it is 'max_output_tokens'",
    "max_completion_tokens": "in the Responses API it is 'max_output_tokens'",
    "reasoning_effort": "in the Responses API it is 'reasoning.effort'",
    "stop": "the Responses API has no stop sequences",
    "logit_bias": "the Responses API has no logit bias",
    "n": "a response is one answer; send the request again for another one",
}
"""Parameters that are refused, because ignoring them would change the request's meaning."""


@checked(frozen=True, config=ConfigDict(extra="allow", strict=True))
class TextOptions:
    """The format of the answer's text."""

    format: dict[str, Any] | None = None
    verbosity: str | None = None


@checked(frozen=True, config=_CONFIG)
class ResponseRequest:
    """The parameters of a request. An unknown one has no effect: see `ignored_parameters`."""

    model: str
    input: str | list[Item] = field(default_factory=list[Item])
    instructions: str | None = None
    tools: list[dict[str, Any]] | None = None
    tool_choice: str | dict[str, Any] | None = None
    text: TextOptions | None = None
    previous_response_id: str | None = None
    include: list[str] | None = None
    metadata: Metadata | None = None
    max_output_tokens: Annotated[int, Ge(1)] | None = None
    max_tool_calls: Annotated[int, Ge(1)] | None = None
    temperature: Annotated[float, Ge(0), Le(2)] | None = None
    top_p: Annotated[float, Ge(0), Le(1)] | None = None
    parallel_tool_calls: bool | None = None
    store: bool | None = None
    stream: bool | None = None
    background: bool | None = None
    truncation: Literal["auto", "disabled"] | None = None
    reasoning: dict[str, Any] | None = None
    stream_options: dict[str, Any] | None = None
    service_tier: str | None = None
    safety_identifier: str | None = None
    prompt_cache_key: str | None = None
    prompt_cache_options: dict[str, Any] | None = None
    prompt_cache_retention: str | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    top_logprobs: Annotated[int, Ge(0), Le(MAX_LOGPROBS)] | None = None
    user: str | None = None
    client_metadata: dict[str, Any] | None = None
    access_programs: dict[str, Any] | None = None
    moderation: dict[str, Any] | None = None

    @property
    def is_stored(self) -> bool:
        """Whether the response is stored. A background response always is."""
        return self.store is not False

    @property
    def items(self) -> list[Item]:
        """The input as items."""
        return items_of(self.input)

    @property
    def logprob_count(self) -> int | None:
        """How many likely tokens are reported at each place; None without any probabilities."""
        if self.top_logprobs or self.includes("message.output_text.logprobs"):
            return self.top_logprobs or 0
        return None

    def includes(self, what: str) -> bool:
        """Whether the request includes an optional part of the output."""
        return what in (self.include or ())


def items_of(content: str | list[Item]) -> list[Item]:
    """An input as items: plain text is a message of the user."""
    if isinstance(content, str):
        return [{"type": "message", "role": "user", "content": content}]
    return content


def read_request(body: object) -> ResponseRequest:
    """Validate a request. The `ApiFault` names the first invalid parameter."""
    _refuse_unsupported(body)
    return _checked_together(read_body(_adapter(), body))


def _refuse_unsupported(body: object) -> None:
    sent = cast(dict[str, Any], body) if isinstance(body, dict) else {}
    for name, instead in UNSUPPORTED.items():
        if sent.get(name) is not None and not (name == "n" and sent[name] == 1):
            raise invalid(f"'{name}' is not supported here: {instead}.", name, "unsupported_value")
    if _blocks(sent.get("moderation")):
        message = "No content is blocked here: leave out the moderation policies of mode 'block'."
        raise invalid(message, "moderation.policy", "unsupported_value")


def _blocks(moderation: object) -> bool:
    """Whether a moderation has to keep content from the model or from the caller."""
    policy = _member(moderation, "policy")
    return any(
        _member(_member(policy, side), "mode") not in (None, "score")
        for side in ("input", "output")
    )


def _member(value: object, key: str) -> object:
    return cast(dict[str, object], value).get(key) if isinstance(value, dict) else None


def ignored_parameters(body: object, known: type[Any] = ResponseRequest) -> tuple[str, ...]:
    """The names in a body that have no effect though the client may expect one. They come from
    the client: they are cut and hold no character that could end a line or a header.
    """
    sent = cast(dict[str, Any], body) if isinstance(body, dict) else {}
    has_effect = {field.name for field in fields(known)} - {"moderation"}
    names = [key for key, value in sent.items() if value is not None and key not in has_effect]
    included: object = sent.get("include")
    if isinstance(included, list):
        values = map(str, cast(list[object], included))
        names += [f"include.{value}" for value in values if value not in INCLUDABLE]
    text: object = sent.get("text")
    if isinstance(text, dict):
        names += [f"text.{key}" for key in cast(dict[str, Any], text) if key not in _TEXT_KEYS]
    return tuple(_UNPRINTABLE.sub("?", name[:_LONGEST_NAME]) for name in names[:MAX_IGNORED])


def read_body(adapter: TypeAdapter[T], body: object) -> T:
    """Validate a body, in which null means absent. Raises `ApiFault`."""
    if not isinstance(body, dict):
        raise invalid("The body must be a JSON object.")
    sent = {k: v for k, v in cast(dict[str, Any], body).items() if v is not None}
    try:
        # pydantic accepts JSON text for strict dataclasses, but no dictionaries.
        return adapter.validate_json(to_json(sent))
    except ValidationError as error:
        raise _fault_of(error) from None
    except (ValueError, RecursionError):
        raise invalid("The body is not valid Unicode, or is nested too deeply.") from None


@cache
def _adapter() -> TypeAdapter[ResponseRequest]:
    return TypeAdapter(ResponseRequest)


def _fault_of(error: ValidationError) -> ApiFault:
    first = error.errors(include_url=False, include_input=False)[0]
    param = ".".join(map(str, first["loc"]))
    if first["type"] == "missing":
        message = f"Missing required parameter: '{param}'."
        return invalid(message, param, "missing_required_parameter")
    return invalid(f"Invalid '{param[:80]}': {first['msg']}.", param, "invalid_type")


def _checked_together(request: ResponseRequest) -> ResponseRequest:
    if not request.items and request.previous_response_id is None:
        raise invalid("One of 'input' or 'previous_response_id' must be given.", "input")
    if request.background and not request.is_stored:
        raise invalid("A background response must be stored: leave out 'store'.", "store")
    return request


@dataclass(frozen=True, slots=True)
class TextFormat:
    """The output format for the backend, and as the response repeats it."""

    output: OutputFormat
    resource: dict[str, Any]


def read_format(text: TextOptions | None) -> TextFormat:
    """Read the text format of a request. Raises `ApiFault`."""
    config = (text.format if text else None) or {"type": "text"}
    match config.get("type"):
        case "text" | "json_object" as kind:
            return TextFormat(OutputFormat(kind), {"type": kind})
        case "json_schema":
            return _schema_format(config)
        case other:
            raise invalid(f"Unknown text format: {str(other)[:80]!r}.", "text.format.type")


def _schema_format(config: dict[str, Any]) -> TextFormat:
    name, schema = config.get("name"), config.get("schema")
    if not isinstance(name, str) or not name:
        raise invalid("A json_schema format needs a name.", "text.format.name")
    if not isinstance(schema, dict):
        raise invalid("A json_schema format needs a schema.", "text.format.schema")
    read = cast(dict[str, Any], schema)
    resource: dict[str, Any] = {
        "type": "json_schema",
        "name": name,
        "description": config.get("description"),
        "schema": read,
        "strict": bool(config.get("strict", False)),
    }
    return TextFormat(OutputFormat("json_schema", name, read), resource)


def new_response(
    request: ResponseRequest, now: float, model: str, provider_metadata: Mapping[str, str]
) -> dict[str, Any]:
    """A new response without output, by this model. `provider_metadata` goes into its metadata."""
    text: dict[str, Any] = {"format": read_format(request.text).resource}
    if request.text and request.text.verbosity:
        text["verbosity"] = request.text.verbosity
    reasoning = request.reasoning or {}
    return {
        "id": new_id("resp"),
        "object": "response",
        "created_at": int(now),
        "completed_at": None,
        "status": "queued" if request.background else "in_progress",
        "background": bool(request.background),
        "error": None,
        "incomplete_details": None,
        "instructions": request.instructions,
        "max_output_tokens": request.max_output_tokens,
        "max_tool_calls": request.max_tool_calls,
        "metadata": {**(request.metadata or {}), **provider_metadata},
        "model": model,
        "output": [],
        "parallel_tool_calls": request.parallel_tool_calls is not False,
        "previous_response_id": request.previous_response_id,
        "prompt_cache_key": request.prompt_cache_key,
        "reasoning": {
            "effort": reasoning.get("effort"),
            "summary": reasoning.get("summary"),
        },
        "safety_identifier": request.safety_identifier,
        "service_tier": "default",
        "store": request.is_stored,
        "temperature": 1.0 if request.temperature is None else request.temperature,
        "text": text,
        "tool_choice": request.tool_choice if request.tool_choice is not None else "auto",
        "tools": [tool_resource(tool) for tool in request.tools or []],
        "top_logprobs": request.top_logprobs or 0,
        "top_p": 1.0 if request.top_p is None else request.top_p,
        "presence_penalty": request.presence_penalty or 0.0,
        "frequency_penalty": request.frequency_penalty or 0.0,
        "truncation": request.truncation or "disabled",
        "usage": None,
        "user": request.user,
    }


def tool_resource(config: dict[str, Any]) -> dict[str, Any]:
    """A tool of the request as the response repeats it, without its secrets."""
    tool = dict(config)
    if tool.get("type") == "function":
        tool = {"description": None, "strict": None, **tool}
    for secret in ("authorization", "headers"):
        if tool.get(secret) is not None:
            tool[secret] = "<redacted>" if secret == "authorization" else None
    return tool


def usage_resource(input_tokens: int, output_tokens: int) -> dict[str, Any]:
    """The token usage of a response."""
    return {
        "input_tokens": input_tokens,
        "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
        "output_tokens": output_tokens,
        "output_tokens_details": {"reasoning_tokens": 0},
        "total_tokens": input_tokens + output_tokens,
    }
