"""Prompts know the type of their answer, and sections that of their params."""

from dataclasses import dataclass
from pathlib import Path
from typing import Any, assert_type

from pydantic import BaseModel

from toolcrib import HostedTool, MarkdownSection, Prompt, RenderedPrompt, Section, Tool, tool
from toolcrib.prompt import (
    FileAttachment,
    OutputSchema,
    Override,
    Overrides,
    TextAttachment,
    digest_of,
)
from toolcrib.tools.web_search import WebSearchConfig, WebSearchSection, web_search_tool


@dataclass
class Answer:
    text: str


class Verdict(BaseModel):
    is_true: bool


@dataclass
class Flags:
    is_on: bool = False


@tool
def look_up(word: str) -> str:
    """Look up a word."""
    return word


# A section without brackets takes no params, and its type is known all the same.
task = MarkdownSection(title="Task", key="task", template="Answer this question: $question")
assert_type(task, MarkdownSection[None])
MarkdownSection(title="Task", key="task")  # pyright: ignore[reportCallIssue]
MarkdownSection(title="Task", key="task", template=5)  # pyright: ignore[reportArgumentType]
MarkdownSection(title="Task", key="task", template="", visibility="none")  # pyright: ignore[reportArgumentType]
MarkdownSection(title="Task", key="task", template="", enable=bool)  # pyright: ignore[reportCallIssue]
MarkdownSection(title="Task", key="task", template="", tools=[look_up], hosted_tools=[look_up])  # pyright: ignore[reportArgumentType]


# A predicate gets the params of its section.
def other_flags(flags: Answer) -> bool:
    return bool(flags.text)


more = MarkdownSection[Flags](
    title="More", key="more", template="", enabled=lambda flags: flags.is_on
)
assert_type(more, MarkdownSection[Flags])
assert_type(more.params_type, type[Flags] | None)
MarkdownSection[Flags](title="More", key="more", template="", enabled=other_flags)  # pyright: ignore[reportArgumentType]


# A clone is of the same class, and changes only what it can change.
assert_type(WebSearchSection().clone(key="again"), WebSearchSection)
more.clone(enabled=lambda flags: not flags.is_on)
more.clone(template="other")  # pyright: ignore[reportCallIssue]


# Prompts of the document on hosted tools.
prompt = Prompt[Answer](
    ns="research",
    key="lookup",
    sections=[
        MarkdownSection(
            title="Task", key="task", template="Answer this question: $question", tools=[look_up]
        ),
        MarkdownSection(
            title="Research",
            key="research",
            template="Find information about $topic",
            hosted_tools=(web_search_tool(WebSearchConfig(), name="cached_search"),),
        ),
        WebSearchSection(),
    ],
)
assert_type(prompt, Prompt[Answer])
assert_type(prompt.bind(Flags(), question="Why?", topic=5), Prompt[Answer])
assert_type(prompt.render(), RenderedPrompt[Answer])
assert_type(prompt.render().output, OutputSchema[Answer] | None)
assert_type(prompt.render().tools, tuple[Tool[Any, Any], ...])
assert_type(prompt.render().hosted_tools, tuple[Tool[Any, Any], ...])
Prompt[Answer](ns="a", sections=[])  # pyright: ignore[reportCallIssue]
Prompt[Answer](ns="a", key="b", sections=["Do it."])  # pyright: ignore[reportArgumentType]
prompt.key = "other"  # pyright: ignore[reportAttributeAccessIssue]


# Without brackets the answer is text; a type given as an argument counts like one in brackets.
assert_type(Prompt(ns="a", key="b", sections=[task]), Prompt[str])
assert_type(Prompt(ns="a", key="b", sections=[task], output_type=Verdict), Prompt[Verdict])


def parsed(schema: OutputSchema[Verdict]) -> bool:
    return assert_type(schema.parse("{}"), Verdict).is_true


# The override point may be narrower than what it overrides, and no wider.
class Searching(MarkdownSection[None]):
    def hosted_tools(self) -> tuple[HostedTool[WebSearchConfig], ...]:
        return (web_search_tool(),)


class Wrong(MarkdownSection[None]):
    def hosted_tools(self) -> tuple[str, ...]:  # pyright: ignore[reportIncompatibleMethodOverride]
        return ("web_search",)


sections: list[Section[Any]] = [task, more, Searching(title="S", key="s", template="")]


# Attachments and overrides.
prompt.bind(attachments=[TextAttachment("words"), FileAttachment(path=Path("report.pdf"))])
prompt.bind(attachments=["words"])  # pyright: ignore[reportArgumentType]
FileAttachment(path="report.pdf")  # pyright: ignore[reportArgumentType]
prompt.with_overrides(Overrides(sections={"task": Override("New.", digest_of("Old."))}))
Overrides(sections={"task": "New."})  # pyright: ignore[reportArgumentType]
