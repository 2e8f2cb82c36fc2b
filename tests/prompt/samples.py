"""Sections, params and tools for the tests of prompts."""

from dataclasses import dataclass, field
from typing import Any

from toolcrib import HostedTool, MarkdownSection, NativeTool, Prompt, Section, Tool, tool
from toolcrib.tools.web_search import WebSearchConfig, web_search_tool


@dataclass(frozen=True)
class Question:
    question: str


@dataclass(frozen=True)
class Flags:
    is_on: bool = False
    names: tuple[str, ...] = field(default=())


@dataclass(frozen=True)
class Found:
    pages: tuple[str, ...] = ()


@tool
def look_up(word: str) -> str:
    """Look up a word.

    Args:
        word: The word.
    """
    return word


def local(name: str = "local", **fields: Any) -> Tool[Question, Found]:
    return Tool[Question, Found](
        name=name, description=f"{name} here.", handler=lambda question: Found(), **fields
    )


def native(name: str = "native", **fields: Any) -> NativeTool[Question, Found]:
    return NativeTool[Question, Found](name=name, description=f"{name} there.", **fields)


def hosted(name: str = "hosted") -> HostedTool[WebSearchConfig]:
    return web_search_tool(name=name)


def section(key: str = "task", template: str = "Do it.", **options: Any) -> MarkdownSection[Any]:
    return MarkdownSection[Any](title=key.title(), key=key, template=template, **options)


def prompt(*sections: Section[Any], **fields: Any) -> Prompt[str]:
    return Prompt[str](ns="tests", key="sample", sections=sections, **fields)


def never(_: object) -> bool:
    """A predicate that keeps a section out."""
    return False


def names(tools: tuple[Tool[Any, Any], ...]) -> list[str]:
    return [each.name for each in tools]
