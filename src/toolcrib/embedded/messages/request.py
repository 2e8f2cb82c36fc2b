"""The request body of `POST /messages`. Unknown parameters are accepted and named in a warning."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Annotated, Any, Final, Literal, TypeAlias, cast

from annotated_types import Ge, Le, MaxLen, MinLen
from pydantic import ConfigDict, TypeAdapter
from pydantic.dataclasses import dataclass as checked

from toolcrib.embedded.backend import OutputFormat
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.request import read_body

Block: TypeAlias = dict[str, Any]
_CONFIG: Final = ConfigDict(extra="ignore", strict=True)

IGNORED: Final = frozenset({"cache_control", "metadata", "service_tier", "stream"})
"""Parameters without an effect here that change nothing about the answer."""


@checked(frozen=True, config=_CONFIG)
class MessageParam:
    """A message of the conversation."""

    role: Literal["user", "assistant", "system"]
    content: str | list[Block]


@checked(frozen=True, config=_CONFIG)
class MessageRequest:
    """The parameters of a request that have an effect."""

    model: str
    messages: Annotated[list[MessageParam], MinLen(1), MaxLen(100_000)]
    max_tokens: Annotated[int, Ge(1)] | None = None
    system: str | list[Block] | None = None
    tools: list[Block] | None = None
    tool_choice: Block | None = None
    stop_sequences: Annotated[list[str], MaxLen(64)] | None = None
    thinking: Block | None = None
    temperature: Annotated[float, Ge(0), Le(1)] | None = None
    top_p: Annotated[float, Ge(0), Le(1)] | None = None
    container: str | Block | None = None
    mcp_servers: list[Block] | None = None
    output_config: Block | None = None
    output_format: Block | None = None

    @property
    def instructions(self) -> str | None:
        """The system prompt as text."""
        if isinstance(self.system, str) or self.system is None:
            return self.system or None
        return "\n\n".join(_system_text(block, at) for at, block in enumerate(self.system)) or None

    @property
    def shows_thinking(self) -> bool:
        """Whether the answer has thinking blocks."""
        return (self.thinking or {}).get("type") in ("enabled", "adaptive")

    @property
    def container_id(self) -> str | None:
        """The container that the request names. Raises `ApiFault`."""
        if isinstance(self.container, str) or self.container is None:
            return self.container or None
        if self.container.get("skills"):
            raise invalid("container.skills: there are no skills here; leave them out.")
        container_id = self.container.get("id")
        if container_id is not None and not isinstance(container_id, str):
            raise invalid("container.id: it must be the id of a container.")
        return container_id

    @property
    def output(self) -> OutputFormat:
        """The format of the answer's text. Raises `ApiFault`."""
        config = (self.output_config or {}).get("format") or self.output_format
        if config is None:
            return OutputFormat()
        facts = cast(dict[str, Any], config) if isinstance(config, dict) else {}
        schema = facts.get("schema")
        if facts.get("type") != "json_schema" or not isinstance(schema, dict):
            raise invalid("output_config.format: give a json_schema with its schema.")
        return OutputFormat("json_schema", "answer", cast(dict[str, Any], schema))


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """A valid request, and the parameters of its body that have no effect here."""

    request: MessageRequest
    unknown: tuple[str, ...]


def read_message_request(body: object, *, is_answered: bool = True) -> ReadRequest:
    """Validate a request; one that is only counted needs no `max_tokens`. Raises `ApiFault`."""
    request = read_body(_adapter(), body)
    if is_answered and request.max_tokens is None:
        raise invalid("max_tokens: Field required")
    if any(not sequence.strip() for sequence in request.stop_sequences or ()):
        raise invalid("stop_sequences: each stop sequence must contain non-whitespace")
    known = MessageRequest.__dataclass_fields__.keys() | IGNORED
    sent = cast(dict[str, Any], body)
    unknown = [name for name, value in sent.items() if name not in known and value is not None]
    effort = (request.output_config or {}).get("effort")
    unknown += ["output_config.effort"] if effort is not None else []
    return ReadRequest(request, tuple(sorted(name[:80] for name in unknown)))


@cache
def _adapter() -> TypeAdapter[MessageRequest]:
    return TypeAdapter(MessageRequest)


def _system_text(block: Block, at: int) -> str:
    text = block.get("text")
    if block.get("type") != "text" or not isinstance(text, str):
        raise invalid(f"system.{at}: a system prompt consists of text blocks.")
    return text
