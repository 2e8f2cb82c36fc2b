"""The conversation of a request: its items, and the history that a backend reads from them."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, cast, get_args

from pydantic import TypeAdapter

from toolcrib.embedded.backend import (
    BackendCall,
    BackendCallResult,
    BackendInput,
    BackendMessage,
    MessageRole,
)
from toolcrib.embedded.database import new_id
from toolcrib.embedded.faults import invalid
from toolcrib.embedded.responses.citations import CitationSources
from toolcrib.embedded.responses.client_tools import (
    APPLY_PATCH,
    LOADING_ITEMS,
    TOOL_SEARCH,
    flat_name,
    loaded_tools,
)
from toolcrib.embedded.responses.compaction import read_compaction
from toolcrib.embedded.responses.request import Item
from toolcrib.embedded.tools.tool import CitationSource
from toolcrib.errors import ApiFault

if TYPE_CHECKING:
    from toolcrib.embedded.access import ResourceAccess
    from toolcrib.embedded.responses.content import ContentResolver
    from toolcrib.embedded.responses.repository import ResponseRepository


HIDDEN_ITEMS: Final = frozenset({"reasoning", "mcp_list_tools", "mcp_approval_request"})
"""Items that are not part of a backend's history; the tools that wrote them read them."""

HOSTED_ITEMS: Final = {
    "web_search_call": "web_search",
    "file_search_call": "file_search",
    "code_interpreter_call": "python",
    "mcp_call": "",
    "shell_call": "shell",
    "tool_search_call": TOOL_SEARCH,
    "image_generation_call": "image_generation",
}
"""By the type of a hosted call: the tool name in the history. An MCP call carries its own."""

_CALLS: Final = frozenset({"function_call", "custom_tool_call", "apply_patch_call"})
_OUTPUTS: Final = frozenset(
    {
        "function_call_output",
        "custom_tool_call_output",
        "shell_call_output",
        "apply_patch_call_output",
    }
)

Recall = Callable[[str], Mapping[str, Any] | None]
"""Looks up the stored answer of a tool by the id of its item."""


class ResponseConversation:
    """The items of a conversation, and the same conversation as a backend's history."""

    def __init__(self, recall: Recall) -> None:
        self.items: list[Item] = []
        self.history: list[BackendInput] = []
        self._recall = recall
        self._names: dict[str, str] = {}

    async def read(
        self, items: Iterable[Item], content: ContentResolver, param: str = "input"
    ) -> None:
        """Append items. The `ApiFault` names the item that cannot be read."""
        for at, item in enumerate(items):
            place = f"{param}[{at}]"
            self.history += self._inputs(await content.resolve(item, place), place)
            self.items.append(item)

    def _inputs(self, item: Item, param: str) -> list[BackendInput]:
        kind = item.get("type", "message" if "role" in item else None)
        if kind == "message":
            return [_said(item, param)]
        if kind == "mcp_approval_response":
            return self._denied(item)
        if kind in HIDDEN_ITEMS:
            return []
        if kind == "compaction":
            return [read_compaction(item, param)]
        if kind in _CALLS:
            return [self._called(item, param)]
        if kind in _OUTPUTS:
            return self._answered(item, param)
        if kind in LOADING_ITEMS:
            return self._loaded(item, param)
        if kind == "tool_search_call" and item.get("execution") != "server":
            return [self._searched(item, param)]
        if kind in HOSTED_ITEMS:
            return self._hosted(item, HOSTED_ITEMS[kind] or _mcp_name(item))
        raise invalid(f"Unknown type of item: {str(kind)[:80]!r}.", f"{param}.type")

    def _called(self, item: Item, param: str) -> BackendCall:
        call_id = _text(item, "call_id", param)
        match item["type"]:
            case "apply_patch_call":
                name, arguments = APPLY_PATCH, json.dumps(item.get("operation"))
            case "custom_tool_call":
                name = _call_name(item, param)
                arguments = json.dumps({"input": _text(item, "input", param)}, ensure_ascii=False)
            case _:
                name, arguments = _call_name(item, param), _text(item, "arguments", param)
        self._names[call_id] = name
        return BackendCall(call_id, name, arguments)

    def _searched(self, item: Item, param: str) -> BackendCall:
        call_id = _text(item, "call_id", param)
        self._names[call_id] = TOOL_SEARCH
        return BackendCall(call_id, TOOL_SEARCH, json.dumps(item.get("arguments")))

    def _loaded(self, item: Item, param: str) -> list[BackendInput]:
        """Tools that an item brings. Those of the client's own search are its result; a search of
        the provider has its result with the call.
        """
        tools = loaded_tools(item, param)
        if item["type"] == "additional_tools" or item.get("execution") == "server":
            return []
        call_id = self._known_call(item, param)
        shown = [f"{tool.declaration.name}: {tool.declaration.description}" for tool in tools]
        text = "\n".join(["These tools can be called now:", *shown]) if shown else "No tool fits."
        return [BackendCallResult(call_id, TOOL_SEARCH, text)]

    def _known_call(self, item: Item, param: str) -> str:
        call_id = _text(item, "call_id", param)
        if call_id not in self._names:
            raise invalid(f"No tool call found for call_id {call_id[:80]!r}.", param)
        return call_id

    def _answered(self, item: Item, param: str) -> list[BackendInput]:
        if item["type"] == "shell_call_output":
            # An output with an id belongs to a hosted call, whose result came with the call.
            shell_output = json.dumps(item.get("output"))
            call_id = _text(item, "call_id", param)
            return [] if item.get("id") else [BackendCallResult(call_id, "shell", shell_output)]
        call_id = self._known_call(item, param)
        output = item.get("output")
        if item["type"] == "apply_patch_call_output":
            text = f"{item.get('status')}: {output}" if output else str(item.get("status"))
            return [BackendCallResult(call_id, APPLY_PATCH, text)]
        if isinstance(output, str):
            return [BackendCallResult(call_id, self._names[call_id], output, _parsed(output))]
        text, place = _parts_text(output, f"{param}.output"), f"{param}.output"
        return [
            BackendCallResult(
                call_id,
                self._names[call_id],
                text,
                _parsed(text),
                images=_images(output, place),
            )
        ]

    def _denied(self, item: Item) -> list[BackendInput]:
        """A call that a person denied. An approved call has an item of its own."""
        request_id = item.get("approval_request_id")
        for request in self.items:
            is_match = (
                request.get("type") == "mcp_approval_request" and request.get("id") == request_id
            )
            if is_match and item.get("approve") is not True:
                name, why = _mcp_name(request), item.get("reason") or "no reason was given"
                call_id, arguments = str(request_id), str(request.get("arguments") or "{}")
                text = f"The user denied this call: {why}"
                return [
                    BackendCall(call_id, name, arguments),
                    BackendCallResult(call_id, name, text),
                ]
        return []

    def _hosted(self, item: Item, name: str) -> list[BackendInput]:
        """A hosted call with its stored answer, or with the part of it that the item shows."""
        item_id = str(item.get("id", ""))
        answer = self._recall(item_id) or {}
        arguments = answer.get("arguments") or json.dumps(_shown_arguments(item))
        text = answer.get("text")
        shown = text if isinstance(text, str) else json.dumps(_shown_answer(item))
        return [
            BackendCall(item_id, answer.get("name", name), arguments),
            BackendCallResult(
                item_id,
                answer.get("name", name),
                shown,
                answer.get("value"),
                tuple(answer.get("marks", ())),
            ),
        ]


def _said(item: Item, param: str) -> BackendMessage:
    role = item.get("role")
    if role not in get_args(MessageRole):
        raise invalid(f"Unknown role: {str(role)[:80]!r}.", f"{param}.role")
    content = item.get("content")
    if isinstance(content, str):
        return BackendMessage(cast(MessageRole, role), content)
    place = f"{param}.content"
    text, images = _parts_text(content, place), _images(content, place)
    return BackendMessage(cast(MessageRole, role), text, images)


def _images(content: object, param: str) -> tuple[str, ...]:
    return tuple(
        str(part["image_url"])
        for part in _parts(content, param)
        if part.get("type") == "input_image"
    )


def _parts(content: object, param: str) -> list[dict[str, Any]]:
    if not isinstance(content, list):
        raise invalid("Content must be text or a list of parts.", param)
    for at, part in enumerate(cast(list[object], content)):
        if not isinstance(part, dict):
            raise invalid("A part must be an object.", f"{param}[{at}]")
    return cast(list[dict[str, Any]], content)


def _parts_text(content: object, param: str) -> str:
    texts: list[str] = []
    for at, part in enumerate(_parts(content, param)):
        match part.get("type"):
            case "input_text" | "output_text" | "text" | "refusal" as kind:
                texts.append(str(part.get("refusal" if kind == "refusal" else "text", "")))
            case "input_image":
                continue
            case other:
                raise invalid(f"Unknown type of part: {str(other)[:80]!r}.", f"{param}[{at}].type")
    return "\n".join(texts)


def _text(item: Item, key: str, param: str) -> str:
    value = item.get(key)
    if not isinstance(value, str):
        raise invalid(f"'{key}' must be text.", f"{param}.{key}")
    return value


def _call_name(item: Item, param: str) -> str:
    name, namespace = _text(item, "name", param), item.get("namespace")
    return flat_name(namespace if isinstance(namespace, str) else None, name)


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return None


def _mcp_name(item: Item) -> str:
    return f"{item.get('server_label')}__{item.get('name')}"


def _shown_arguments(item: Item) -> Any:
    match item.get("type"):
        case "code_interpreter_call":
            return {"code": item.get("code")}
        case "file_search_call":
            return {"queries": item.get("queries")}
        case "mcp_call":
            return _parsed(str(item.get("arguments"))) or {}
        case "tool_search_call":
            return item.get("arguments")
        case "image_generation_call":
            return {"prompt": item.get("revised_prompt")}
        case _:
            return item.get("action") or {}


def _shown_answer(item: Item) -> Any:
    shown = {key: item.get(key) for key in ("status", "outputs", "results", "output", "error")}
    return {key: value for key, value in shown.items() if value is not None}


_PREFIXES: Final = {
    "message": "msg",
    "function_call": "fc",
    "function_call_output": "fco",
    "custom_tool_call": "ctc",
    "custom_tool_call_output": "ctco",
    "reasoning": "rs",
    "compaction": "cmp",
    "apply_patch_call": "apc",
    "apply_patch_call_output": "apco",
    "tool_search_call": "tsc",
    "tool_search_output": "tso",
    "additional_tools": "at",
}
_WITH_STATUS: Final = frozenset(
    {
        "message",
        "function_call",
        "function_call_output",
        "custom_tool_call",
        "custom_tool_call_output",
        "apply_patch_call",
        "apply_patch_call_output",
        "tool_search_call",
        "tool_search_output",
    }
)


@dataclass(frozen=True, slots=True)
class StoredItem:
    """A stored item, with the answer of its tool that the item itself does not show."""

    body: Item
    answer: Mapping[str, Any] | None = None

    @property
    def id(self) -> str:
        """The id of the item."""
        return str(self.body.get("id"))


def whole_item(item: Item) -> Item:
    """Complete an input item as the API returns it: with id, type, status and content parts."""
    kind = str(item.get("type") or ("message" if "role" in item else ""))
    whole: Item = {**item, "type": kind}
    if not isinstance(item.get("id"), str):
        whole["id"] = new_id(_PREFIXES.get(kind, "item"))
    if kind in _WITH_STATUS and item.get("status") is None:
        whole["status"] = "completed"
    if kind == "message" and "content" in item:
        whole["content"] = _item_parts(item["content"], is_ours=item.get("role") == "assistant")
    if kind == "reasoning":
        whole.setdefault("summary", [])
    if kind in ("tool_search_call", "tool_search_output"):
        whole.setdefault("execution", "client")
    return whole


def _item_parts(content: object, *, is_ours: bool) -> object:
    if isinstance(content, str):
        content = [{"type": "output_text" if is_ours else "input_text", "text": content}]
    if not isinstance(content, list):
        return content
    return [_part(part) for part in cast(list[object], content)]


def _part(part: object) -> object:
    if not isinstance(part, dict):
        return part
    fields = cast(dict[str, Any], part)
    match fields.get("type"):
        case "output_text":
            return {"annotations": [], "logprobs": [], **fields}
        case "input_image":
            return {"detail": "auto", **fields}
        case _:
            return fields


_SOURCE: TypeAdapter[CitationSource] = TypeAdapter(CitationSource)


@dataclass(frozen=True, slots=True)
class RequestHistory:
    """The conversation that a request continues.

    `before` are the items of earlier responses, `input_items` those of this request. With
    `is_stored` the earlier items are stored with their own responses.
    """

    conversation: ResponseConversation
    sources: CitationSources
    before: Sequence[StoredItem] = ()
    input_items: Sequence[StoredItem] = ()
    is_stored: bool = True

    @property
    def unstored(self) -> list[StoredItem]:
        """The items that must be stored with this response."""
        return [*(() if self.is_stored else self.before), *self.input_items]


class HistoryCache:
    """The last response of one connection, which it may continue although it is not stored."""

    def __init__(self) -> None:
        self._last: tuple[str, Sequence[StoredItem]] | None = None

    def chain(self, response_id: str) -> Sequence[StoredItem] | None:
        """The items up to this response, if it is the cached one."""
        last = self._last
        return last[1] if last is not None and last[0] == response_id else None

    def remember(self, response_id: str, items: Sequence[StoredItem]) -> None:
        """Cache this response instead of the previous one."""
        self._last = response_id, items

    def forget(self) -> None:
        """Empty the cache."""
        self._last = None


async def read_history(
    repository: ResponseRepository,
    items: Sequence[Item],
    previous_id: str | None,
    access: ResourceAccess,
    content: ContentResolver,
    recent: HistoryCache | None = None,
) -> RequestHistory:
    """Read the conversation that a request continues. Raises `ApiFault`, also for a response, an
    item or a file that the principal may not see.
    """
    before = recent.chain(previous_id) if recent and previous_id else None
    is_stored = before is None
    if before is None:
        before = await repository.chain(previous_id, access) if previous_id else []
    inputs = [
        await _resolved(repository, item, access, f"input[{at}]") for at, item in enumerate(items)
    ]
    answers = {item.id: item.answer for item in (*before, *inputs) if item.answer}
    conversation = ResponseConversation(answers.get)
    await conversation.read((item.body for item in before), content, "previous_response_id")
    await conversation.read((item.body for item in inputs), content)
    return RequestHistory(conversation, _restored(answers), before, inputs, is_stored)


async def _resolved(
    repository: ResponseRepository, item: Item, access: ResourceAccess, param: str
) -> StoredItem:
    """Complete an item, or look it up: clients send our items back, whole or by their id."""
    item_id = item.get("id")
    known = await repository.item(item_id, access) if isinstance(item_id, str) else None
    if item.get("type") != "item_reference":
        return StoredItem(whole_item(item), known.answer if known else None)
    if known is None:
        raise ApiFault(404, "Item not found.", param=f"{param}.id")
    return known


def _restored(answers: Mapping[str, Mapping[str, Any] | None]) -> CitationSources:
    sources = CitationSources()
    for answer in answers.values():
        for mark, source in (answer or {}).get("sources", {}).items():
            sources.restore(mark, _SOURCE.validate_python(source))
    return sources
