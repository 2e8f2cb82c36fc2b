"""The terms of single tools of a mounted server: another name, other words, other arguments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Literal, cast

from toolcrib.tools.argument_transform import ArgumentTransform
from toolcrib.tools.audience import Audience
from toolcrib.tools.prepared_tool import prepare

if TYPE_CHECKING:
    from toolcrib.tools.tool import Tool

Approval = Literal["always", "policy"]
"""Whether a person approves every call of a server's tools, or the policy decides."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolTerms:
    """What is different about one tool. None leaves it as the server and its other terms say."""

    name: str | None = None
    """The whole name that it has here."""
    title: str | None = None
    description: str | None = None
    approval: Approval | None = None
    timeout: float | None = None
    visible_to: Audience | None = None
    arguments: ArgumentTransform | None = None
    """A fixed text with `${NAME}` has the variable filled in when it is sent."""


def tool_terms_from(entry: Mapping[str, Any]) -> ToolTerms:
    """The terms of a tool from its entry in a file that matches the schema."""
    arguments = cast("Mapping[str, Mapping[str, Any]]", entry.get("arguments", {}))
    plain = ("name", "title", "description", "approval", "timeout")
    return ToolTerms(
        **{key: entry[key] for key in plain if key in entry},
        visible_to=audience_from(entry.get("visible_to")),
        arguments=_transform(arguments) if arguments else None,
    )


def audience_from(entry: Mapping[str, Any] | None) -> Audience | None:
    """An audience from its entry in a file; None without one. Raises `InvalidTool`."""
    if entry is None:
        return None
    return Audience(
        principals=tuple(entry.get("principals", ())), groups=tuple(entry.get("groups", ()))
    )


def _transform(arguments: Mapping[str, Mapping[str, Any]]) -> ArgumentTransform:
    def of(key: str) -> dict[str, Any]:
        return {name: terms[key] for name, terms in arguments.items() if key in terms}

    hidden = tuple(name for name, terms in arguments.items() if terms.get("hidden"))
    return ArgumentTransform(
        fixed=of("fixed"), renamed=of("name"), described=of("description"), hidden=hidden
    )


def fixed_texts(tools: Mapping[str, ToolTerms]) -> Iterator[str]:
    """The texts in fixed values, which may name variables."""
    for terms in tools.values():
        if terms.arguments is not None:
            yield from _texts(dict(terms.arguments.fixed))


def _texts(value: Any) -> Iterator[str]:
    match value:
        case str():
            yield value
        case dict():
            for member in cast("dict[str, Any]", value).values():
                yield from _texts(member)
        case list():
            for member in cast("list[Any]", value):
                yield from _texts(member)
        case _:
            pass


def filled_transforms(
    tools: Mapping[str, ToolTerms], fill: Callable[[str], str]
) -> Mapping[str, ArgumentTransform]:
    """The argument transforms by the server's own names. A fixed value that names a variable stays
    as it is written, for records; what it stands for is a secret of the transform.
    """
    return MappingProxyType(
        {
            name: replace(terms.arguments, secrets=_secrets(terms.arguments.fixed, fill))
            for name, terms in tools.items()
            if terms.arguments is not None
        }
    )


def _secrets(fixed: Mapping[str, Any], fill: Callable[[str], str]) -> dict[str, Any]:
    filled = {name: _filled(value, fill) for name, value in fixed.items()}
    return {name: value for name, value in filled.items() if value != fixed[name]}


def _filled(value: Any, fill: Callable[[str], str]) -> Any:
    match value:
        case str():
            return fill(value)
        case dict():
            members = cast("dict[str, Any]", value)
            return {name: _filled(member, fill) for name, member in members.items()}
        case list():
            return [_filled(member, fill) for member in cast("list[Any]", value)]
        case _:
            return value


def under_terms(
    tool: Tool[Any, Any], terms: ToolTerms | None, transform: ArgumentTransform | None
) -> Tool[Any, Any]:
    """A tool of a server on its own terms. Raises `InvalidTool` when they do not fit it."""
    if terms is None:
        return tool
    changed = replace(
        tool,
        requires_approval=tool.requires_approval
        if terms.approval is None
        else terms.approval == "always",
        timeout=tool.timeout if terms.timeout is None else terms.timeout,
        visible_to=terms.visible_to or tool.visible_to,
        argument_transform=transform,
    )
    prepare(changed)
    return changed
