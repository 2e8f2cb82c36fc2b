"""Resources and prompts of an application: their facts in the form of MCP, and the tool behind a
read of one.

A read of a resource is a call of the tool `resources.read`, and a get of a prompt a call of
`prompts.get`: decided by the policy and recorded as every call. No list of tools has them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from functools import cache
from typing import Any, Final, TypeAlias, TypedDict, cast

from pydantic_core import to_jsonable_python

from toolcrib.errors import CallEnded, InvalidTool
from toolcrib.features.arguments import Completions, FeatureArguments
from toolcrib.features.content import prompt_value, resource_value, value_text
from toolcrib.features.uri_template import UriTemplate
from toolcrib.tools.context import ToolContext
from toolcrib.tools.invoke import is_async
from toolcrib.tools.result import ToolResult
from toolcrib.tools.rules import RESERVED_NAMES
from toolcrib.tools.tool import Tool

READ_RESOURCE: Final = "resources.read"
GET_PROMPT: Final = "prompts.get"
FEATURE_TOOLS: Final = RESERVED_NAMES
"""The names of the tools behind reads, for policies and records."""

READ_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {"uri": {"type": "string", "maxLength": 8_192}},
    "required": ["uri"],
    "additionalProperties": False,
}
GET_SCHEMA: Final[Mapping[str, Any]] = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "maxLength": 256},
        "arguments": {
            "type": "object",
            "additionalProperties": {"type": "string"},
            "default": {},
        },
    },
    "required": ["name"],
    "additionalProperties": False,
}

OWN_SOURCE: Final = "host"
"""The source of the tools behind the application's own resources and prompts."""


class FeatureFacts(TypedDict, total=False):
    """What clients are shown of a resource or a prompt, and the rules of its reads."""

    name: str
    title: str
    description: str
    icons: Sequence[Mapping[str, Any]]
    meta: Mapping[str, Any]
    completions: Completions
    requires_approval: bool
    timeout: float | None


class ResourceFacts(FeatureFacts, total=False):
    """What a resource has besides."""

    mime_type: str
    size: int
    annotations: Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedResource:
    """A resource, or a template of resources: a URI and the function that gives its content."""

    uri: str
    name: str
    function: Callable[..., Any]
    title: str | None = None
    description: str | None = None
    mime_type: str | None = None
    size: int | None = None
    annotations: Mapping[str, Any] | None = None
    icons: Sequence[Mapping[str, Any]] | None = None
    meta: Mapping[str, Any] | None = None
    completions: Completions = field(default_factory=dict[str, Any])
    requires_approval: bool = False
    timeout: float | None = None
    template: UriTemplate = field(init=False)
    arguments: FeatureArguments = field(init=False)
    tool: Tool[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        template = UriTemplate(self.uri)
        arguments = FeatureArguments(
            self.function, f"resource {self.uri!r}", dict(self.completions)
        )
        _check_variables(template, arguments)
        if self.size is not None and template.variables:
            raise InvalidTool(
                f"resource {self.uri!r}: only a resource without variables has a size"
            )
        object.__setattr__(self, "template", template)
        object.__setattr__(self, "arguments", arguments)
        handler = _reader(self.function, template, arguments, self.mime_type)
        object.__setattr__(self, "tool", _tool(self, READ_RESOURCE, handler, READ_SCHEMA))

    @property
    def key(self) -> str:
        """What no other resource or prompt of a registry has."""
        return f"resource {self.uri}"

    @property
    def is_template(self) -> bool:
        """Whether it stands for several resources."""
        return bool(self.template.variables)

    def as_mcp(self) -> dict[str, Any]:
        """The entry of a list of resources, or of templates."""
        uri = {"uriTemplate": self.uri} if self.is_template else {"uri": self.uri}
        facts: dict[str, Any] = {
            **uri,
            **_common(self),
            "mimeType": self.mime_type,
            "size": self.size,
            "annotations": self.annotations,
        }
        return _present(facts)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class ServedPrompt:
    """A prompt that a person may choose at their client: the function gives its messages."""

    name: str
    function: Callable[..., Any]
    title: str | None = None
    description: str | None = None
    icons: Sequence[Mapping[str, Any]] | None = None
    meta: Mapping[str, Any] | None = None
    completions: Completions = field(default_factory=dict[str, Any])
    requires_approval: bool = False
    timeout: float | None = None
    arguments: FeatureArguments = field(init=False)
    tool: Tool[Any, Any] = field(init=False)

    def __post_init__(self) -> None:
        arguments = FeatureArguments(self.function, f"prompt {self.name!r}", dict(self.completions))
        arguments.check()
        object.__setattr__(self, "arguments", arguments)
        handler = _prompter(self.function, arguments, self.description)
        object.__setattr__(self, "tool", _tool(self, GET_PROMPT, handler, GET_SCHEMA))

    @property
    def key(self) -> str:
        """What no other resource or prompt of a registry has."""
        return f"prompt {self.name}"

    def as_mcp(self) -> dict[str, Any]:
        """The entry of a list of prompts."""
        arguments = [
            _present(
                {
                    "name": argument.name,
                    "description": self.arguments.descriptions.get(argument.name),
                    "required": argument.is_required,
                }
            )
            for argument in self.arguments.signature.arguments
        ]
        return _present({**_common(self), "arguments": arguments or None})


Feature: TypeAlias = ServedResource | ServedPrompt


def missing_features() -> list[Tool[Any, Any]]:
    """The tools behind reads, as far as rules are compared with them."""
    return [missing_feature(name) for name in sorted(FEATURE_TOOLS)]


@cache
def missing_feature(name: str) -> Tool[Any, Any]:
    """The tool behind a read of what is not there: the attempt is decided and recorded too."""

    def refuse(input: dict[str, Any], context: ToolContext) -> None:
        is_resource = name == READ_RESOURCE
        what = f"resource {input['uri']!r}" if is_resource else f"prompt {input['name']!r}"
        raise CallEnded("not_found", f"There is no {what}.")

    return Tool[Any, Any](
        name=name,
        description="Read a resource." if name == READ_RESOURCE else "Get a prompt.",
        handler=refuse,
        calling="input",
        json_schema=READ_SCHEMA if name == READ_RESOURCE else GET_SCHEMA,
        source=OWN_SOURCE,
        is_read_only=True,
        is_idempotent=True,
    )


def _common(feature: Feature) -> dict[str, Any]:
    return {
        "name": feature.name,
        "title": feature.title,
        "description": feature.description,
        "icons": feature.icons,
        "_meta": feature.meta,
    }


def _present(facts: dict[str, Any]) -> dict[str, Any]:
    return to_jsonable_python({key: value for key, value in facts.items() if value is not None})


def _tool(
    feature: Feature, name: str, handler: Callable[..., Any], schema: Mapping[str, Any]
) -> Tool[Any, Any]:
    for each in fields(feature):
        if each.name in ("name", "title", "description"):
            _check_text(feature.key, each.name, getattr(feature, each.name))
    return Tool[Any, Any](
        name=name,
        description=feature.description or feature.title or feature.key,
        handler=handler,
        calling="input",
        json_schema=schema,
        source=OWN_SOURCE,
        is_read_only=True,
        is_idempotent=True,
        requires_approval=feature.requires_approval,
        timeout=feature.timeout,
    )


def _check_text(owner: str, name: str, text: object) -> None:
    if text is None:
        return
    is_text = isinstance(text, str) and text.strip()
    if not is_text or not str(text).replace("\n", "").replace("\t", "").isprintable():
        raise InvalidTool(f"{owner}: {name} must be text that can be printed, not {text!r}")


def _check_variables(template: UriTemplate, arguments: FeatureArguments) -> None:
    arguments.check()
    named = {argument.name: argument for argument in arguments.signature.arguments}
    for variable in template.variables:
        if variable not in named:
            raise InvalidTool(
                f"{arguments.owner}: the function has no parameter for {{{variable}}}"
            )
        if variable in template.optional and named[variable].is_required:
            raise InvalidTool(
                f"{arguments.owner}: a URI may leave {variable!r} out; give the parameter a default"
            )
    for name, argument in named.items():
        if name not in template.variables and argument.is_required:
            raise InvalidTool(
                f"{arguments.owner}: the URI has no {{{name}}}; add it, or give the parameter a "
                "default"
            )


def _reader(
    function: Callable[..., Any],
    template: UriTemplate,
    arguments: FeatureArguments,
    mime_type: str | None,
) -> Callable[..., Any]:
    def keywords(uri: str, context: ToolContext) -> dict[str, Any]:
        values = template.match(uri)
        if values is None:
            raise CallEnded("not_found", f"There is no resource {uri!r}.")
        try:
            return arguments.read(values, context)
        except CallEnded:
            # A URI whose variables do not fit their types is the URI of nothing.
            raise CallEnded("not_found", f"There is no resource {uri!r}.") from None

    def shaped(result: object, uri: str) -> ToolResult[Any]:
        return _shaped(result, lambda plain: resource_value(plain, uri, mime_type))

    async def read(input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        uri = input["uri"]
        return shaped(await function(**keywords(uri, context)), uri)

    def read_blocking(input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        uri = input["uri"]
        return shaped(function(**keywords(uri, context)), uri)

    return read if is_async(function) else read_blocking


def _prompter(
    function: Callable[..., Any], arguments: FeatureArguments, description: str | None
) -> Callable[..., Any]:
    def shaped(result: object) -> ToolResult[Any]:
        return _shaped(result, lambda plain: prompt_value(plain, description))

    async def get(input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        return shaped(await function(**arguments.read(input.get("arguments") or {}, context)))

    def get_blocking(input: dict[str, Any], context: ToolContext) -> ToolResult[Any]:
        return shaped(function(**arguments.read(input.get("arguments") or {}, context)))

    return get if is_async(function) else get_blocking


def _shaped(result: object, shape: Callable[[object], dict[str, Any]]) -> ToolResult[Any]:
    if isinstance(result, ToolResult):
        given = cast("ToolResult[Any]", result)
        # A failure is passed on as it is; a success brings a value like any other.
        if not given.success:
            return given
        result = given.value
    value = shape(result)
    return ToolResult(value=value, message=value_text(value))
