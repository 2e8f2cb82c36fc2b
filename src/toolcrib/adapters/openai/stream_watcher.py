"""Announces the events of a stream of the Responses API.

Servers leave events out, repeat them and change their order. What no delta brought is announced
when the part, the item or the response is complete; what was complete is not announced again.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, cast

from pydantic_core import to_json

from toolcrib.adapters.codec import failure_of
from toolcrib.adapters.items import mapping_of, mappings_of, maybe_int, plain, text_of, texts_of
from toolcrib.adapters.openai.stream import ENDINGS

if TYPE_CHECKING:
    from toolcrib.adapters.codec import RawItem
    from toolcrib.adapters.stream_announcer import StreamAnnouncer
    from toolcrib.ledger.prompt_events import HostedStatus

_STEPS: Final = frozenset({"in_progress", "searching", "interpreting", "generating"})
_IMAGE_STARTS: Final = (("iVBOR", "image/png"), ("/9j/", "image/jpeg"), ("UklGR", "image/webp"))
_REASONING: Final = {
    "response.reasoning_summary_text": ("summary", "summary_index"),
    "response.reasoning_text": ("content", "content_index"),
}
_ARGUMENTS: Final = {
    "response.function_call_arguments": "arguments",
    "response.mcp_call_arguments": "arguments",
    "response.custom_tool_call_input": "input",
}

Key = tuple[str, object]


class StreamWatcher:
    """Watches the streams of one request, which may be made more than once."""

    def __init__(self, announcer: StreamAnnouncer) -> None:
        self._announcer = announcer
        self._begin()

    def begin_attempt(self) -> None:
        """A stream begins."""
        self._announcer.begin_attempt()
        self._begin()

    async def add(self, event: RawItem) -> None:
        """Take in one event, and wait for a reader that has fallen behind."""
        if self._is_repeated(event):
            return
        self._read(event)
        await self._announcer.ready()

    def _begin(self) -> None:
        self._places: dict[str, Key] = {}
        """The key of each item, by its id and by the id of its call."""
        self._seen: set[object] = set()
        """Events, and texts and items that are whole."""
        self._last_commands: dict[Key, int] = {}

    def _is_repeated(self, event: RawItem) -> bool:
        """Whether the server sends an event again. The number alone is not trusted."""
        number = maybe_int(event, "sequence_number")
        if not number:
            return False
        mark = (number, text_of(event, "type"), text_of(event, "delta"))
        if mark in self._seen:
            return True
        self._seen.add(mark)
        return False

    def _read(self, event: RawItem) -> None:
        kind = text_of(event, "type")
        name, _, end = kind.rpartition(".")
        if kind == "response.output_text.delta":
            self._text(self._part(event), text_of(event, "delta"))
        elif kind == "response.output_text.done":
            self._whole_text(self._part(event), text_of(event, "text"))
        elif kind == "response.output_item.added":
            self._added(plain(event.get("item")), event)
        elif kind == "response.output_item.done":
            self._done(plain(event.get("item")), self._key(event))
        elif kind in ENDINGS:
            items = mappings_of(mapping_of(event, "response"), "output")
            for index, item in enumerate(items):
                self._done(item, self._places.get(text_of(item, "id")) or ("at", index))
        elif name in _REASONING:
            self._reasoning(name, end, event)
        elif name in _ARGUMENTS:
            self._arguments(name, end, event)
        elif "_call" in name:
            self._call(name.removeprefix("response."), end, event)

    def _key(self, event: RawItem) -> Key:
        index = maybe_int(event, "output_index")
        item_id = text_of(event, "item_id") or text_of(mapping_of(event, "item"), "id")
        if index is not None:
            self._places.setdefault(item_id, ("at", index))
            return "at", index
        return self._places.get(item_id, ("id", item_id))

    def _part(self, event: RawItem) -> object:
        return self._key(event), maybe_int(event, "content_index") or 0

    def _text(self, part: object, piece: str) -> None:
        if piece and ("whole", part) not in self._seen:
            self._announcer.text(part, piece)

    def _whole_text(self, part: object, text: str) -> None:
        if ("whole", part) not in self._seen:
            self._seen.add(("whole", part))
            self._announcer.end_text(part, text)

    def _added(self, item: RawItem, event: RawItem) -> None:
        key = self._key({**event, "item_id": text_of(item, "id")})
        self._open(item, key)

    def _open(self, item: RawItem, key: Key) -> None:
        kind, call_id = text_of(item, "type"), text_of(item, "call_id")
        if kind.endswith("_output") and call_id:
            # What a call printed is an item of its own.
            owner = self._places.get(f"call {call_id}")
            if owner is not None:
                self._places[f"output {key}"] = owner
            return
        if call_id:
            self._places.setdefault(f"call {call_id}", key)
        self._announcer.open_call(key, item)

    def _done(self, item: RawItem, key: Key) -> None:
        if ("done", key) in self._seen:
            return
        self._seen.add(("done", key))
        match text_of(item, "type"):
            case "message":
                for index, part in enumerate(mappings_of(item, "content")):
                    if text_of(part, "type") == "output_text":
                        self._whole_text((key, index), text_of(part, "text"))
            case "reasoning":
                for name in ("summary", "content"):
                    for index, part in enumerate(mappings_of(item, name)):
                        self._announcer.end_reasoning((key, name, index), text_of(part, "text"))
            case _:
                self._open(item, key)
                self._end_call(item, key)

    def _end_call(self, item: RawItem, key: Key) -> None:
        announcer = self._announcer
        match text_of(item, "type"):
            case "function_call" | "mcp_call":
                announcer.end_arguments(key, text_of(item, "arguments"))
            case "custom_tool_call":
                announcer.end_arguments(key, text_of(item, "input"))
            case "shell_call":
                commands = texts_of(mapping_of(item, "action"), "commands")
                announcer.code(key, "\n".join(commands), is_whole=True)
            case "shell_call_output":
                owner = self._places.get(f"output {key}", key)
                announcer.output(owner, _printed(mappings_of(item, "output")), is_whole=True)
                return
            case "code_interpreter_call":
                announcer.code(key, text_of(item, "code"), is_whole=True)
                logs = [text_of(each, "logs") for each in mappings_of(item, "outputs")]
                announcer.output(key, "".join(logs), is_whole=True)
            case _:
                operation = item.get("operation") or item.get("arguments")
                if isinstance(operation, dict):
                    announcer.end_arguments(key, to_json(operation).decode())
        action = mapping_of(item, "action")
        queries = texts_of(action, "queries") or texts_of(item, "queries")
        query = text_of(action, "query")
        announcer.search(
            key, tuple(queries or ([query] if query else [])), text_of(action, "url") or None
        )
        announcer.status(key, _ending(item))

    def _reasoning(self, name: str, end: str, event: RawItem) -> None:
        place, index_field = _REASONING[name]
        key = (self._key(event), place, maybe_int(event, index_field) or 0)
        if end == "delta":
            self._announcer.reasoning(key, text_of(event, "delta"))
        elif end == "done":
            self._announcer.end_reasoning(key, text_of(event, "text"))

    def _arguments(self, name: str, end: str, event: RawItem) -> None:
        if end == "delta":
            self._announcer.arguments(self._key(event), text_of(event, "delta"))
        elif end == "done":
            self._announcer.end_arguments(self._key(event), text_of(event, _ARGUMENTS[name]))

    def _call(self, name: str, end: str, event: RawItem) -> None:
        key, announcer = self._key(event), self._announcer
        match name, end:
            case "code_interpreter_call_code", "delta":
                announcer.code(key, text_of(event, "delta"))
            case "code_interpreter_call_code", "done":
                announcer.code(key, text_of(event, "code"), is_whole=True)
            case "shell_call_command", "delta":
                announcer.code(key, self._command(key, event))
            case "shell_call_output_content", "delta":
                delta = mapping_of(event, "delta")
                owner = self._places.get(f"output {key}", key)
                announcer.output(owner, text_of(delta, "stdout") + text_of(delta, "stderr"))
            case "image_generation_call", "partial_image":
                picture = text_of(event, "partial_image_b64")
                announcer.status(key, "generating")
                index = maybe_int(event, "partial_image_index") or 0
                announcer.image(key, index, _media_type(picture), picture)
            case _, ("completed" | "failed" | "incomplete"):
                # The item follows, with what there is still to be said.
                pass
            case _ if end in _STEPS:
                announcer.status(key, cast("HostedStatus", end))
            case _:
                pass

    def _command(self, key: Key, event: RawItem) -> str:
        """A piece of a command; each command is on a line of its own."""
        index = maybe_int(event, "command_index") or 0
        is_next = index > self._last_commands.get(key, 0)
        self._last_commands[key] = index
        return ("\n" if is_next else "") + text_of(event, "delta")


def _printed(outputs: list[dict[str, Any]]) -> str:
    return "".join(text_of(each, "stdout") + text_of(each, "stderr") for each in outputs)


def _ending(item: RawItem) -> HostedStatus:
    if text_of(item, "status") == "incomplete":
        return "incomplete"
    return "completed" if failure_of(item) is None else "failed"


def _media_type(base64: str) -> str:
    for start, media_type in _IMAGE_STARTS:
        if base64.startswith(start):
            return media_type
    return "application/octet-stream"
