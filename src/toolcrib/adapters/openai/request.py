"""The bodies of a turn's requests.

What all requests of a turn share is encoded once, and so is every item, however often it is sent.
The schema of a structured answer is made strict where strict mode can express it.
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, cast

from toolcrib.adapters.codec import Codec
from toolcrib.adapters.items import plain
from toolcrib.adapters.openai.items import write_item
from toolcrib.errors import PromptEvaluationError

if TYPE_CHECKING:
    from toolcrib.adapters.history import Conversation, History
    from toolcrib.adapters.items import Item
    from toolcrib.adapters.options import TurnOptions
    from toolcrib.adapters.tool_declarations import (
        FunctionDeclaration,
        HostedDeclaration,
        ToolDeclarations,
    )
    from toolcrib.prompt.output import OutputSchema
    from toolcrib.prompt.prompt import RenderedPrompt
    from toolcrib.tools.function_options import FreeForm, Namespace


class Outgoing:
    """The items that a request brings. A history that we keep goes out with every request, so an
    item stays encoded once it has been sent.
    """

    def __init__(self) -> None:
        self._items: list[Item] = []
        self._encoded: list[bytes] = []

    def to_json(self, items: list[Item]) -> bytes:
        """All items, as a list. The same list must only have grown since the last time."""
        if items is not self._items:
            self._items, self._encoded = items, []
        self._encoded += (encoded(write_item(item)) for item in items[len(self._encoded) :])
        return b"[%b]" % b",".join(self._encoded)


def encoded(value: Any) -> bytes:
    """JSON as it is sent. Raises `TypeError`, `ValueError` or `RecursionError` for what cannot be
    JSON.
    """
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_model)
    try:
        return text.encode()
    except UnicodeEncodeError:
        # Half of a surrogate pair, which a provider may send, can only be spelt as an escape.
        return json.dumps(value, separators=(",", ":"), default=_model).encode()


def _model(value: Any) -> dict[str, Any]:
    """A model of the SDK's, which settings may hold, with what was set in it."""
    if not hasattr(value, "model_dump"):
        raise TypeError(f"{type(value).__name__} is not JSON")
    return plain(value)


_NAMED: Final = frozenset({"properties", "$defs"})
_VALUES: Final = frozenset({"enum", "const", "examples"})
_IMPOSSIBLE: Final = frozenset({"prefixItems", "patternProperties", "allOf", "not", "if"})


class NotStrict(ValueError):
    """A schema that strict mode cannot take."""


def strict_schema(schema: dict[str, Any]) -> dict[str, Any] | None:
    """The schema with every object closed and every property required.

    None when that is impossible: an object with free keys cannot be closed.
    """
    try:
        return _Strict(schema).node(schema)
    except NotStrict:
        return None


class _Strict:
    def __init__(self, root: Mapping[str, Any]) -> None:
        self._definitions: Mapping[str, Any] = root.get("$defs", {})
        self._inlining: set[str] = set()

    def node(self, node: dict[str, Any]) -> dict[str, Any]:
        """One schema, strict."""
        if _IMPOSSIBLE & node.keys():
            raise NotStrict("a keyword that strict mode does not know")
        if "$ref" in node and len(node) > 1:
            return self._inlined(node)
        strict = {
            # Strict mode has no `oneOf`; `anyOf` accepts at least the same values.
            "anyOf" if key == "oneOf" else key: self._member(key, value)
            for key, value in node.items()
            if key not in ("default", "discriminator")
        }
        return self._closed(strict) if node.get("type") == "object" else strict

    def _member(self, key: str, value: Any) -> Any:
        if key in _VALUES:
            return value
        if isinstance(value, list):
            listed = cast("list[Any]", value)
            return [self._member("", member) for member in listed]
        if not isinstance(value, dict):
            return value
        schema = cast("dict[str, Any]", value)
        if key in _NAMED:
            return {name: self.node(member) for name, member in schema.items()}
        return self.node(schema)

    def _closed(self, node: dict[str, Any]) -> dict[str, Any]:
        if node.get("additionalProperties") not in (None, False):
            raise NotStrict("an object with free keys")
        properties: dict[str, Any] = node.get("properties", {})
        return {**node, "additionalProperties": False, "required": list(properties)}

    def _inlined(self, node: dict[str, Any]) -> dict[str, Any]:
        """Nothing may stand beside a reference, so what it refers to is put in its place."""
        ref = str(node["$ref"])
        beside = {key: value for key, value in node.items() if key not in ("$ref", "default")}
        target = self._definitions.get(ref.removeprefix("#/$defs/"))
        if not beside or ref in self._inlining or target is None:
            return {"$ref": ref}
        self._inlining.add(ref)
        inlined = self.node({**target, **beside})
        self._inlining.discard(ref)
        return inlined


def output_format(output: OutputSchema[Any]) -> dict[str, Any]:
    """`text.format` for a structured answer; strict where the schema allows it."""
    strict = strict_schema(output.schema)
    return {
        "type": "json_schema",
        # A name may have the brackets of a generic type, or letters of any language.
        "name": re.sub(r"[^a-zA-Z0-9_-]", "_", output.name)[:64],
        "schema": output.schema if strict is None else strict,
        "strict": strict is not None,
    }


def choice_of(declared: ToolDeclarations, wanted: str, prompt_name: str) -> Any:
    """`tool_choice` for `auto`, `none`, `required` or the name of one tool."""
    if wanted == "required" and not declared.has_tools:
        raise _unrenderable(
            "tool_choice is 'required', but no tool is offered; offer one, or leave the choice at "
            "'auto'",
            prompt_name,
        )
    if wanted in ("auto", "none", "required"):
        return wanted
    if wanted in declared.wire:
        wire_name = declared.wire[wanted]
        is_custom = any(
            function.wire_name == wire_name and function.options.free_form is not None
            for function in declared.functions
        )
        return {"type": "custom" if is_custom else "function", "name": wire_name}
    for hosted in declared.hosted:
        if hosted.tool.name == wanted:
            return _hosted_choice(hosted)
    for client in declared.client_run:
        if client.tool.name == wanted:
            return client.codec.choice(client.tool)
    known = ", ".join(declared.offered) or "none"
    raise _unrenderable(
        f"tool_choice names {wanted!r}, which the prompt does not offer; it offers: {known}",
        prompt_name,
    )


def _hosted_choice(hosted: HostedDeclaration) -> Any:
    if isinstance(hosted.codec, Codec):
        return hosted.codec.choice(hosted.tool)
    return {"type": hosted.codec.serialize(hosted.tool)["type"]}


def _unrenderable(message: str, prompt_name: str) -> PromptEvaluationError:
    return PromptEvaluationError(message, prompt_name=prompt_name, phase="render")


RESERVED: Final[Mapping[str, str]] = {
    "background": "pass background= to evaluate",
    "conversation": "choose with the adapter's history= who keeps the conversation",
    "input": "it is the prompt",
    "instructions": "they are the prompt's: Prompt(instructions=...)",
    "model": "it is the adapter's model=",
    "previous_response_id": "choose with the adapter's history= who keeps the conversation",
    "store": "choose with the adapter's history= who keeps the conversation",
    "stream": "pass stream= to evaluate",
    "tool_choice": "pass tool_choice= to evaluate",
    "tools": "they are the prompt's",
}
"""Fields of a request that are not for settings, and what to do instead."""


class Requests:
    """The requests of one turn. What all of them say is encoded once.

    Raises `PromptEvaluationError` (phase render) for what cannot be JSON.
    """

    def __init__(
        self,
        prompt: RenderedPrompt[Any],
        declared: ToolDeclarations,
        options: TurnOptions,
        history: History,
    ) -> None:
        self._prompt_name = prompt.name
        self._declared = declared
        self._options = options
        self._outgoing = Outgoing()
        self.is_background = options.background
        with self._json_errors():
            shared = encoded(_shared(prompt, declared, options, history))
        self._shared = shared[1:-1]

    def body(self, conversation: Conversation) -> bytes:
        """What to send next."""
        own: dict[str, Any] = {}
        if conversation.last_response_id is not None:
            own["previous_response_id"] = conversation.last_response_id
        if self._declared.has_tools:
            own |= _tool_choice(self._declared, self._options, conversation, self._prompt_name)
        with self._json_errors():
            members = [self._shared, b'"input":%b' % self._outgoing.to_json(conversation.unsent)]
        if own:
            members.append(encoded(own)[1:-1])
        return b"{%b}" % b",".join(members)

    @contextmanager
    def _json_errors(self) -> Generator[None]:
        try:
            yield
        except (TypeError, ValueError, RecursionError) as error:
            raise PromptEvaluationError(
                f"the request cannot be written as JSON: {error}",
                prompt_name=self._prompt_name,
                phase="render",
            ) from error


def _shared(
    prompt: RenderedPrompt[Any], declared: ToolDeclarations, options: TurnOptions, history: History
) -> dict[str, Any]:
    extra: dict[str, Any] = {**options.settings, **declared.body}
    include = [*_listed(extra.pop("include", ())), *declared.include]
    body: dict[str, Any] = {"model": options.model}
    if prompt.instructions:
        # Nothing of it is carried over by `previous_response_id`: every request says it again.
        body["instructions"] = prompt.instructions
    if options.stream:
        body["stream"] = True
    if options.background:
        body["background"] = True
    if history == "client":
        # What the provider does not keep it cannot give later; it is deleted once it was given.
        body["store"] = options.background
        include.append("reasoning.encrypted_content")
    if include:
        body["include"] = list(dict.fromkeys(include))
    if declared.has_tools:
        body["tools"] = [*function_entries(declared.functions), *declared.entries]
    if prompt.output is not None:
        text = cast("Mapping[str, Any]", extra.pop("text", {}))
        body["text"] = {**text, "format": output_format(prompt.output)}
    return {**body, **extra}


def function_entry(function: FunctionDeclaration) -> dict[str, Any]:
    """A tool that this process runs, as an entry of a request's `tools`."""
    options = function.options
    entry: dict[str, Any] = {"name": function.wire_name, "description": function.description}
    if options.free_form is None:
        # Strict mode would refuse optional arguments; the executor validates them anyway.
        entry |= {"type": "function", "parameters": function.parameters, "strict": False}
    else:
        entry |= {"type": "custom", "format": _format(options.free_form)}
    if options.defer_loading:
        entry["defer_loading"] = True
    if options.allowed_callers is not None:
        entry["allowed_callers"] = list(options.allowed_callers)
        if function.output_schema is not None and options.is_programmatic:
            entry["output_schema"] = function.output_schema
    return entry


def function_entries(functions: Sequence[FunctionDeclaration]) -> list[dict[str, Any]]:
    """All functions of a request; those of one namespace together, where its first one stands."""
    entries: list[dict[str, Any]] = []
    groups: dict[Namespace, list[dict[str, Any]]] = {}
    for function in functions:
        namespace = function.options.namespace
        if namespace is None:
            entries.append(function_entry(function))
            continue
        if namespace not in groups:
            groups[namespace] = []
            entries.append(
                {
                    "type": "namespace",
                    "name": namespace.name,
                    "description": namespace.description,
                    "tools": groups[namespace],
                }
            )
        groups[namespace].append(function_entry(function))
    return entries


def _format(free_form: FreeForm) -> dict[str, str]:
    if free_form.syntax is None or free_form.definition is None:
        return {"type": "text"}
    return {"type": "grammar", "syntax": free_form.syntax, "definition": free_form.definition}


def _tool_choice(
    declared: ToolDeclarations, options: TurnOptions, conversation: Conversation, prompt_name: str
) -> dict[str, Any]:
    """A choice that is forced is forced once: else the model could never answer."""
    wanted = options.tool_choice
    is_over = conversation.steps > 0 and wanted != "none"
    if wanted == "auto" or is_over:
        return {}
    return {"tool_choice": choice_of(declared, wanted, prompt_name)}


def _listed(include: Any) -> list[str]:
    return [include] if isinstance(include, str) else list(include)
