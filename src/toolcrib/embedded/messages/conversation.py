"""The conversation of a Messages request, read into the history of a backend."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Protocol, cast

from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendInput,
    BackendMessage,
)
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.messages.citation import CitedDocument, SourceMarks
from toolcrib.embedded.messages.result import (
    BACKEND_NAMES,
    RESULT_TYPES,
    listed,
    read_result,
)

if TYPE_CHECKING:
    from toolcrib.embedded.messages.request import Block, MessageParam

HIDDEN: Final = frozenset(
    {"thinking", "redacted_thinking", "mcp_tool_listing", "compaction", "fallback"}
)
"""Blocks that are not part of a backend's history."""

_SERVER_USES: Final = frozenset({"server_tool_use", "mcp_tool_use"})
_IMAGE_NOTE: Final = "[image]"


class Attachments(Protocol):
    """Reads the images and documents that blocks name. Its methods raise `ApiFault`."""

    async def image(self, source: Block, at: str) -> str:
        """The address of an image: `data:`, `http:` or `https:`."""
        ...

    async def document(self, block: Block, at: str) -> str:
        """The text of a document."""
        ...


class MessageConversation:
    """A conversation: the history that a backend reads, its sources, and the files of a container.

    `text` is all that people and tools have said, in which a model may have found an address.
    """

    def __init__(self, attachments: Attachments) -> None:
        self.history: list[BackendInput] = []
        self.marks = SourceMarks()
        self.documents = 0
        self.uploads: list[str] = []
        self.context: list[str] = []
        self._attachments = attachments
        self._uses: dict[str, tuple[str, str]] = {}
        """By the id of a call that waits for its result: the backend's name of the tool, and the
        arguments."""

    async def read(self, messages: Sequence[MessageParam]) -> None:
        """Append messages. The `ApiFault` names the block that cannot be read."""
        waiting: set[str] = set()
        for number, message in enumerate(messages):
            at = f"messages.{number}"
            blocks = _blocks(message.content, at)
            if waiting and message.role != "system":
                self._check_answered(waiting, blocks, at)
                waiting = set()
            match message.role:
                case "assistant":
                    self._read_assistant(blocks, at)
                    waiting = {str(b.get("id")) for b in blocks if b.get("type") == "tool_use"}
                case "user" | "system" as role:
                    await self._read_user(role, blocks, at)

    def hear(self, use: Block, result: Block) -> None:
        """Append a server call with its result block."""
        name, arguments = _use(use)
        read = read_result(result, self.documents)
        self.documents += any(isinstance(source, CitedDocument) for source in read.sources)
        marks = self.marks.add(read.sources)
        text = read.text + listed(marks, read.sources)
        self.context.append(read.text)
        call_id = str(use["id"])
        self.history += [
            BackendCall(call_id, name, arguments),
            BackendCallResult(call_id, name, text, read.value, marks),
        ]

    def refuse(self, name: str, arguments: str, why: str) -> None:
        """Append a call that was not run; only the backend sees it."""
        call_id = f"refused_{len(self.history)}"
        self.history += [
            BackendCall(call_id, name, arguments),
            BackendCallResult(call_id, name, why),
        ]

    def _check_answered(self, waiting: set[str], blocks: list[Block], at: str) -> None:
        answered = {block.get("tool_use_id") for block in blocks}
        if missing := sorted(waiting - answered):
            raise invalid(
                f"{at}: `tool_use` ids were found without `tool_result` blocks immediately after: "
                f"{', '.join(missing)[:200]}."
            )

    def _read_assistant(self, blocks: list[Block], at: str) -> None:
        uses: dict[str, Block] = {}
        texts: list[str] = []
        for number, block in enumerate(blocks):
            kind, place = block.get("type"), f"{at}.content.{number}"
            if kind == "text":
                texts.append(_text(block, "text", place))
                continue
            self._say("assistant", texts)
            if kind == "tool_use":
                self._called(block, place)
            elif kind in _SERVER_USES:
                uses[_text(block, "id", place)] = block
            elif kind in RESULT_TYPES:
                use = uses.pop(str(block.get("tool_use_id")), None)
                if use is None:
                    raise invalid(f"{place}: there is no server_tool_use with this tool_use_id.")
                self.hear(use, block)
            elif kind not in HIDDEN and kind != "container_upload":
                raise _unknown(kind, place)
        self._say("assistant", texts)

    def _called(self, block: Block, at: str) -> None:
        call_id, name = _text(block, "id", at), _text(block, "name", at)
        arguments = json.dumps(block.get("input") or {}, ensure_ascii=False)
        self._uses[call_id] = name, arguments
        self.history.append(BackendCall(call_id, name, arguments))

    async def _read_user(self, role: Any, blocks: list[Block], at: str) -> None:
        texts: list[str] = []
        images: list[str] = []
        for number, block in enumerate(blocks):
            place = f"{at}.content.{number}"
            match block.get("type"):
                case "tool_result":
                    await self._answered(block, place)
                case "container_upload":
                    self.uploads.append(_text(block, "file_id", place))
                case _:
                    text, shown = await self._part(block, place)
                    texts.append(text)
                    images += shown
        self.context += texts
        if texts or images:
            self.history.append(BackendMessage(role, "\n".join(filter(None, texts)), tuple(images)))

    async def _answered(self, block: Block, at: str) -> None:
        """Append the result of a client's tool."""
        call_id = _text(block, "tool_use_id", at)
        use = self._uses.pop(call_id, None)
        if use is None:
            raise invalid(
                f"{at}: unexpected `tool_use_id` found in `tool_result` blocks: {call_id[:80]}. "
                "Each `tool_result` block must have a corresponding `tool_use` block before it."
            )
        texts: list[str] = []
        images: list[str] = []
        for number, part in enumerate(_blocks(block.get("content") or [], at)):
            text, shown = await self._part(part, f"{at}.content.{number}")
            texts.append(text or (_IMAGE_NOTE if shown else ""))
            images += shown
        text = "\n".join(texts)
        self.context.append(text)
        shown_text = f"Error: {text}" if block.get("is_error") is True else text
        self.history.append(
            BackendCallResult(call_id, use[0], shown_text, _parsed(text), images=tuple(images))
        )

    async def _part(self, block: Block, at: str) -> tuple[str, list[str]]:
        """The text of a block and its images."""
        match block.get("type"):
            case "text":
                return _text(block, "text", at), []
            case "image":
                return "", [await self._attachments.image(_source(block, at), at)]
            case "document":
                return await self._document(block, at), []
            case "search_result":
                parts = _blocks(block.get("content") or [], at)
                text = "\n".join(_text(part, "text", at) for part in parts)
                return f"{block.get('title')} ({block.get('source')})\n{text}", []
            case "tool_reference":
                return str(block.get("tool_name")), []
            case kind:
                raise _unknown(kind, at)

    async def _document(self, block: Block, at: str) -> str:
        text = await self._attachments.document(block, at)
        title, context = block.get("title"), block.get("context")
        named = str(title) if title else None
        index, self.documents = self.documents, self.documents + 1
        head = f"Document {named!r}" if named else "Document"
        head += f" ({context})" if context else ""
        config: Mapping[str, Any] = block.get("citations") or {}
        if config.get("enabled") is True:
            file_id = cast(dict[str, Any], block["source"]).get("file_id")
            [mark] = self.marks.add([CitedDocument(index, named, text, file_id)])
            return f"[{mark}] {head}, which the answer cites as [{mark}]:\n{text}"
        return f"{head}:\n{text}"

    def _say(self, role: Any, texts: list[str]) -> None:
        if texts:
            self.history.append(BackendMessage(role, "".join(texts)))
            texts.clear()


def _use(use: Block) -> tuple[str, str]:
    name = str(use.get("name"))
    if use.get("type") == "mcp_tool_use":
        name = f"{use.get('server_name')}__{name}"
    arguments = json.dumps(use.get("input") or {}, ensure_ascii=False)
    return BACKEND_NAMES.get(name, name), arguments


def _blocks(content: object, at: str) -> list[Block]:
    if isinstance(content, str):
        return [{"type": "text", "text": content}]
    listed_blocks = cast(list[object], content) if isinstance(content, list) else [None]
    for number, block in enumerate(listed_blocks):
        if not isinstance(block, dict):
            raise invalid(f"{at}.content.{number}: a content block must be an object.")
    return cast("list[Block]", listed_blocks)


def _source(block: Block, at: str) -> Block:
    source = block.get("source")
    if not isinstance(source, dict):
        raise invalid(f"{at}.source: Field required")
    return cast("Block", source)


def _text(block: Block, key: str, at: str) -> str:
    value = block.get(key)
    if not isinstance(value, str):
        raise invalid(f"{at}.{key}: it must be text.")
    return value


def _unknown(kind: object, at: str) -> Exception:
    return invalid(f"{at}: a block of type {str(kind)[:80]!r} cannot be read here.")


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
