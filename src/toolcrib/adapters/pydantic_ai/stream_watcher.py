"""Announces the events of a stream of pydantic-ai: the parts of a response as they grow."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import to_json

from toolcrib.adapters.items import mapping_of, mappings_of, text_of, texts_of
from toolcrib.adapters.pydantic_ai.parts import NATIVE_CALL, item_of, raw_reasoning

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.stream_announcer import StreamAnnouncer

_CODE: Final = ("code", "command")
_MCP: Final = ("tool_args",)
_ESCAPE: Final = re.compile(
    r"\\(?:u(?:[dD][89abAB][0-9a-fA-F]{0,2}(?:\\(?:u[0-9a-fA-F]{0,3})?)?|"
    r"[0-9a-fA-F]{0,3}))?\Z"
)


class JsonMember:
    """A member of a JSON object that is written piece by piece: its text when it is a string, else
    its JSON.
    """

    def __init__(self, names: Sequence[str]) -> None:
        self._start = re.compile(rf'"(?:{"|".join(names)})"\s*:\s*(?=\S)')
        self._pending = ""
        self._is_text: bool | None = None
        self._is_over = False

    def add(self, piece: str) -> str:
        """What more of the member is known."""
        if self._is_over:
            return ""
        self._pending += piece
        if self._is_text is None and not self._find():
            return ""
        return self._string() if self._is_text else self._value()

    def _find(self) -> bool:
        start = self._start.search(self._pending)
        if start is None:
            return False
        rest = self._pending[start.end() :]
        self._is_text = rest.startswith('"')
        self._pending = rest[1:] if self._is_text else rest
        return True

    def _string(self) -> str:
        end = _end_of_string(self._pending)
        if end is not None:
            self._is_over = True
            raw, self._pending = self._pending[:end], ""
        else:
            # An escape that is not whole waits for the rest.
            cut = _ESCAPE.search(self._pending)
            place = cut.start() if cut else len(self._pending)
            raw, self._pending = self._pending[:place], self._pending[place:]
        try:
            return json.loads(f'"{raw}"', strict=False)
        except ValueError:
            return ""

    def _value(self) -> str:
        # The last bracket is that of the object around it.
        stripped = self._pending.rstrip()
        place = len(stripped) - 1 if stripped.endswith("}") else len(self._pending)
        shown, self._pending = self._pending[:place], self._pending[place:]
        return shown


def _end_of_string(text: str) -> int | None:
    """Where a JSON string ends, without its quotation mark."""
    place = 0
    while (place := text.find('"', place)) >= 0:
        before = text[:place]
        if (len(before) - len(before.rstrip("\\"))) % 2 == 0:
            return place
        place += 1
    return None


class PartWatcher:
    """Watches the stream of one attempt."""

    def __init__(self, announcer: StreamAnnouncer) -> None:
        self._announcer = announcer
        self._calls: dict[str, int] = {}
        """The parts of the calls that the provider runs, by the ids of the calls."""
        self._members: dict[int, JsonMember] = {}
        self._images: dict[str, int] = {}
        announcer.begin_attempt()

    async def add(self, event: Any) -> None:
        """Take in one event, and wait for a reader that has fallen behind."""
        match event.event_kind:
            case "part_start":
                self._start(event.index, event.part)
            case "part_delta":
                self._grow(event.index, event.delta)
            case "part_end":
                self._end(event.index, event.part)
            case _:
                return
        await self._announcer.ready()

    def _start(self, index: int, part: Any) -> None:
        announcer = self._announcer
        match part.part_kind:
            case "text":
                announcer.text(part.content)
            case "thinking" if part.content:
                announcer.reasoning(index, part.content)
            case "tool-call":
                announcer.open_call(index, item_of(part))
                announcer.arguments(index, _json(part.args))
            case "builtin-tool-call":
                self._open_native(index, part)
                self._write(index, _json(part.args))
            case "builtin-tool-return":
                self._end_native(part)
            case "file":
                self._picture(part)
            case _:
                pass

    def _grow(self, index: int, delta: Any) -> None:
        match delta.part_delta_kind:
            case "text":
                self._announcer.text(delta.content_delta)
            case "thinking" if delta.content_delta:
                self._announcer.reasoning(index, delta.content_delta)
            case "tool_call":
                self._write(index, _json(delta.args_delta))
            case _:
                pass

    def _end(self, index: int, part: Any) -> None:
        announcer = self._announcer
        match part.part_kind:
            case "text":
                announcer.end_text()
            case "thinking":
                self._end_reasoning(index, part)
            case "tool-call":
                announcer.end_arguments(index, _json(part.args))
            case "builtin-tool-call":
                self._end_arguments(index, part)
            case _:
                pass

    def _end_reasoning(self, index: int, part: Any) -> None:
        if part.content:
            self._announcer.end_reasoning(index, part.content)
            return
        for number, text in enumerate(raw_reasoning(part.provider_details or {})):
            self._announcer.end_reasoning((index, number), text)

    def _open_native(self, index: int, part: Any) -> None:
        self._calls.setdefault(part.tool_call_id, index)
        self._announcer.open_call(index, item_of(part))
        match self._announcer.capability(index):
            case "code_interpreter" | "shell":
                self._members.setdefault(index, JsonMember(_CODE))
            case "mcp":
                self._members.setdefault(index, JsonMember(_MCP))
            case _:
                pass

    def _write(self, index: int, piece: str) -> None:
        if not piece:
            return
        member = self._members.get(index)
        text = piece if member is None else member.add(piece)
        if self._announcer.capability(index) in ("code_interpreter", "shell"):
            self._announcer.code(index, text)
        else:
            self._announcer.arguments(index, text)

    def _end_arguments(self, index: int, part: Any) -> None:
        arguments = mapping_of(item_of(part), "arguments")
        if index not in self._members:
            self._announcer.end_arguments(index, _json(part.args))
        query = text_of(arguments, "query")
        queries = texts_of(arguments, "queries") or ([query] if query else [])
        self._announcer.search(index, tuple(queries), text_of(arguments, "url") or None)

    def _end_native(self, part: Any) -> None:
        index = self._calls.get(part.tool_call_id)
        if index is None:
            # pydantic-ai leaves out the calls of tools that the request did not declare.
            key: object = part.tool_call_id
            call: RawItem = {**item_of(part), "type": NATIVE_CALL, "arguments": None}
            self._announcer.open_call(key, call)
        else:
            key = index
        item = item_of(part)
        self._announcer.output(key, printed_in(item.get("content")), is_whole=True)
        is_success = getattr(part, "outcome", "success") == "success" and not _has_failed(item)
        self._announcer.status(key, "completed" if is_success else "failed")

    def _picture(self, part: Any) -> None:
        index = self._calls.get(part.id or "")
        if index is None:
            return
        number = self._images.get(part.id, 0)
        self._images[part.id] = number + 1
        self._announcer.status(index, "generating")
        picture = b64encode(part.content.data).decode()
        self._announcer.image(index, number, part.content.media_type, picture)


def printed_in(content: Any) -> str:
    """What a program printed, in the result of a provider's tool: each has names of its own."""
    if not isinstance(content, Mapping):
        return ""
    facts = cast("Mapping[str, Any]", content)
    inner = mapping_of(facts, "content")
    texts = [text_of(facts, name) or text_of(inner, name) for name in ("stdout", "stderr")]
    texts += [text_of(each, "logs") for each in mappings_of(facts, "outputs")]
    logs = facts.get("outputs")
    if isinstance(logs, list) and all(isinstance(each, str) for each in cast("list[Any]", logs)):
        texts += cast("list[str]", logs)
    output = facts.get("output")
    return "".join(texts) or (output if isinstance(output, str) else "")


def _has_failed(item: RawItem) -> bool:
    content = mapping_of(item, "content")
    return text_of(content, "status") == "failed" or bool(content.get("error"))


def _json(arguments: Any) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else to_json(arguments).decode()
