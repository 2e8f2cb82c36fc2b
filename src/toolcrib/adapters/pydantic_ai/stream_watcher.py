"""Announces the events of a stream of pydantic-ai: the parts of a response as they grow."""

from __future__ import annotations

import json
import re
from base64 import b64encode
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from pydantic_core import to_json

from toolcrib.adapters.items import mapping_of, text_of, texts_of
from toolcrib.adapters.pydantic_ai.codecs.code_interpreter import code_of, run_of
from toolcrib.adapters.pydantic_ai.codecs.hosted_call import HostedCall
from toolcrib.adapters.pydantic_ai.parts import GROQ, NATIVE_CALL, item_of, raw_reasoning

if TYPE_CHECKING:
    from pydantic_ai.messages import ModelResponse

    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.stream_announcer import StreamAnnouncer

_CODE: Final = ("code", "snippet", "command")
_MCP: Final = ("tool_args",)
_PROGRAMS: Final = frozenset({"code_interpreter", "shell"})
_WHOLE_UNITS: Final = re.compile(
    r"(?:[^\\]|\\[^u]|\\u(?![dD][89abAB])[0-9a-fA-F]{4}"
    r"|\\u[dD][89abAB][0-9a-fA-F]{2}\\u[0-9a-fA-F]{4})*",
    re.DOTALL,
)
"""The start of a JSON string up to an escape, or a pair of them, that is not whole."""


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
            units = _WHOLE_UNITS.match(self._pending)
            place = units.end() if units else 0
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

    def __init__(self, announcer: StreamAnnouncer, provider: str) -> None:
        self._announcer = announcer
        self._provider = provider
        self._calls: dict[str, int] = {}
        """The parts of the calls that the provider runs, by the ids of the calls."""
        self._functions: set[str] = set()
        self._thoughts: dict[object, None] = {}
        """The texts of the reasoning, in order."""
        self._texts: dict[int, list[str]] = {}
        """The parts of the text."""
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

    def finish(self, response: ModelResponse) -> None:
        """The stream is over: announce what is in the response and was in none of its events."""
        announcer = self._announcer
        self._complete_texts([p.content for p in response.parts if p.part_kind == "text"])
        thoughts = [text for part in response.parts for text in _thoughts(part)]
        keys: list[object] = [*self._thoughts]
        keys += [("unheard", number) for number in range(len(keys), len(thoughts))]
        if self._provider == GROQ:
            thoughts = ["".join(thoughts)]
        for key, thought in zip(keys, thoughts, strict=False):
            announcer.end_reasoning(key, thought)
        # Their places in the stream are others.
        for index, part in enumerate(response.parts, 1_000_000):
            match part.part_kind:
                case "tool-call" if part.tool_call_id not in self._functions:
                    self._start(index, part)
                    self._end(index, part)
                case "builtin-tool-call" if part.tool_call_id not in self._calls:
                    self._start(index, part)
                    self._end(index, part)
                case "builtin-tool-return":
                    self._end_native(part)
                case _:
                    pass

    def _start(self, index: int, part: Any) -> None:
        announcer = self._announcer
        match part.part_kind:
            case "text":
                self._say(index, part.content)
            case "thinking":
                self._think(index, part.content)
            case "tool-call":
                self._functions.add(part.tool_call_id)
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
                self._say(index, delta.content_delta)
            case "thinking":
                self._think(index, delta.content_delta)
            case "tool_call":
                self._write(index, _json(delta.args_delta))
            case _:
                pass

    def _end(self, index: int, part: Any) -> None:
        announcer = self._announcer
        match part.part_kind:
            case "text":
                announcer.end_text(index)
            case "tool-call":
                announcer.end_arguments(index, _json(part.args))
            case "builtin-tool-call":
                self._end_arguments(index, part)
            case _:
                pass

    def _say(self, index: int, piece: str) -> None:
        if piece:
            self._texts.setdefault(index, []).append(piece)
            self._announcer.text(index, piece)

    def _complete_texts(self, texts: list[str]) -> None:
        heard = ["".join(pieces) for pieces in self._texts.values()]
        if "".join(heard) == "".join(texts) or len(heard) > len(texts):
            return
        keys: list[object] = [*self._texts]
        keys += [("unheard", number) for number in range(len(keys), len(texts))]
        for key, text in zip(keys, texts, strict=True):
            self._announcer.end_text(key, text)

    def _think(self, index: int, piece: str | None) -> None:
        if piece:
            key = GROQ if self._provider == GROQ else index
            self._thoughts.setdefault(key)
            self._announcer.reasoning(key, piece)

    def _open_native(self, index: int, part: Any) -> None:
        self._calls.setdefault(part.tool_call_id, index)
        self._announcer.open_call(index, item_of(part))
        capability = self._announcer.capability(index)
        if capability in _PROGRAMS:
            self._members.setdefault(index, JsonMember(_CODE))
        elif capability == "mcp":
            self._members.setdefault(index, JsonMember(_MCP))

    def _write(self, index: int, piece: str) -> None:
        if not piece:
            return
        member = self._members.get(index)
        text = piece if member is None else member.add(piece)
        if self._announcer.capability(index) in _PROGRAMS:
            self._announcer.code(index, text)
        else:
            self._announcer.arguments(index, text)

    def _end_arguments(self, index: int, part: Any) -> None:
        arguments = mapping_of(item_of(part), "arguments")
        if self._announcer.capability(index) in _PROGRAMS:
            self._announcer.code(index, code_of(arguments), is_whole=True)
        elif index not in self._members:
            self._announcer.end_arguments(index, _json(part.args))
        query = text_of(arguments, "query")
        queries = texts_of(arguments, "queries") or ([query] if query else [])
        self._announcer.search(index, tuple(queries), text_of(arguments, "url") or None)

    def _end_native(self, part: Any) -> None:
        index = self._calls.get(part.tool_call_id)
        if index is None:
            # pydantic-ai leaves out the calls of tools that the request did not declare.
            key: object = part.tool_call_id
            unseen: RawItem = {**item_of(part), "type": NATIVE_CALL, "arguments": None}
            self._announcer.open_call(key, unseen)
        else:
            key = index
        call = HostedCall({}, item_of(part))
        if self._announcer.capability(key) in _PROGRAMS:
            run = run_of(call, ())
            self._announcer.output(key, run.stdout + (run.stderr or ""), is_whole=True)
        self._announcer.status(key, "completed" if call.failure is None else "failed")

    def _picture(self, part: Any) -> None:
        index = self._calls.get(part.id or "")
        if index is None:
            return
        number = self._images.get(part.id, 0)
        self._images[part.id] = number + 1
        self._announcer.status(index, "generating")
        picture = b64encode(part.content.data).decode()
        self._announcer.image(index, number, part.content.media_type, picture)


def _thoughts(part: Any) -> tuple[str, ...]:
    if part.part_kind != "thinking":
        return ()
    return (part.content,) if part.content else raw_reasoning(part.provider_details or {})


def _json(arguments: Any) -> str:
    if arguments is None:
        return ""
    return arguments if isinstance(arguments, str) else to_json(arguments).decode()
