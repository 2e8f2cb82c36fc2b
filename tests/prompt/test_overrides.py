"""Overrides: each replaces the text it was written for, or is refused."""

from collections.abc import Mapping
from typing import Any

import pytest

from tests.prompt.samples import Question, hosted, local, native, never, prompt, section
from toolcrib import Prompt, Section
from toolcrib.errors import InvalidPrompt
from toolcrib.prompt import Override, Overrides, digest_of
from toolcrib.tools import OpenAICodeInterpreterTool
from toolcrib.toolsets import BaseTool


def with_section(made: Prompt[str], path: str, text: str, replaces: str) -> Prompt[str]:
    return made.with_overrides(Overrides(sections={path: Override(text, digest_of(replaces))}))


def with_tool(made: Prompt[str], name: str, text: str, replaces: str) -> Prompt[str]:
    return made.with_overrides(Overrides(tools={name: Override(text, digest_of(replaces))}))


def test_the_text_of_a_section_is_replaced_by_path() -> None:
    """An override is a template like the one it replaces, and only its section changes."""
    made = prompt(section("a", children=[section("b", "Old $x.")]), section("b", "Old $x.")).bind(
        x="one"
    )

    text = with_section(made, "a/b", "New $x, $$5.", "Old $x.").render().text

    assert text == "## A\n\nDo it.\n\n### B\n\nNew one, $5.\n\n## B\n\nOld one."


def test_an_override_is_a_new_prompt() -> None:
    """The prompt it was made from keeps its text."""
    made = prompt(section())
    replaced = with_section(made, "task", "New.", "Do it.")

    assert (made.render().text, replaced.render().text) == ("## Task\n\nDo it.", "## Task\n\nNew.")


def test_the_text_of_a_computed_section_is_replaced_too() -> None:
    """What an override replaces is the section's source, whatever its body does with it."""

    class Listing(Section[Question]):
        def body(self, values: Mapping[str, Any]) -> str:
            return "computed"

        @property
        def source(self) -> str:
            return "v1"

    made = prompt(Listing(title="L", key="l")).bind(Question("Why?"))

    assert with_section(made, "l", "<$question>", "v1").render().text == "## L\n\n<Why?>"


def test_an_override_of_a_changed_section_is_refused() -> None:
    """Somebody edited the template after the override was written; the error says what to do."""
    made = with_section(prompt(section("a", children=[section("b", "New.")])), "a/b", "x", "Old.")

    with pytest.raises(
        InvalidPrompt,
        match=rf"prompt 'tests:sample': section 'a/b': .*has changed .*{digest_of('New.')}",
    ):
        made.render()


def test_a_section_can_refuse_overrides() -> None:
    """X10: a text that must stay as it is says so."""
    made = with_section(prompt(section(accepts_overrides=False)), "task", "x", "Do it.")

    with pytest.raises(InvalidPrompt, match=r"section 'task': .*does not accept overrides"):
        made.render()


@pytest.mark.parametrize("path", ["taks", "b", "task/a", "/task", ""])
def test_an_override_of_no_section_is_refused(path: str) -> None:
    """A misspelt path must not go unnoticed; the error lists the paths there are."""
    made = with_section(prompt(section(children=[section("b")])), path, "x", "Do it.")

    with pytest.raises(
        InvalidPrompt,
        match=rf"prompt 'tests:sample': .* override of section '{path}', .*are: task, task/b$",
    ):
        made.render()


@pytest.mark.parametrize(
    ("text", "fault"),
    [("$answer", r"uses \$answer, but Question has only: question"), ("$5", "starts no name")],
)
def test_the_text_of_an_override_is_checked(text: str, fault: str) -> None:
    """An override can ask for no more than the text that it replaces could."""
    made = prompt(section(params_type=Question)).bind(Question("Why?"))

    with pytest.raises(InvalidPrompt, match=rf"section 'task': its override: .*{fault}"):
        with_section(made, "task", text, "Do it.").render()


def test_an_override_may_use_names_that_are_bound() -> None:
    """A name that only the override uses can be bound before or after it is put in."""
    made = prompt(section())

    early = with_section(made.bind(x=1), "task", "$x", "Do it.")
    late = with_section(made, "task", "$x", "Do it.").bind(x=1)

    assert early.render().text == late.render().text == "## Task\n\n1"
    with pytest.raises(InvalidPrompt, match=r"its override: no value for \$x"):
        with_section(made, "task", "$x", "Do it.").render()


def test_an_override_of_what_is_out_is_no_mistake() -> None:
    """Which sections and tools take part may change from one rendering to the next."""
    inner = section("inner", tools=[local("tool")])
    made = prompt(
        section("off", enabled=never, children=[inner]),
        section("short", summary="S.", visibility="summary", children=[inner.clone()]),
    )
    overrides = Overrides(
        sections={path: Override("x", "stale") for path in ("off", "off/inner", "short/inner")},
        tools={"tool": Override("x", "stale")},
    )

    assert made.with_overrides(overrides).render().text == "## Short\n\nS."


class Shelf(BaseTool):
    name = "shelf"
    description = "Look on the shelf"

    async def call(self, ctx: Any, label: str) -> str:
        return label


@pytest.mark.parametrize(
    "tool",
    [
        local("shelf", timeout=5),
        Shelf(),
        native("shelf", accepts_overrides=True),
        OpenAICodeInterpreterTool(name="shelf", accepts_overrides=True, category="code"),
    ],
)
def test_the_description_of_a_tool_is_replaced(tool: Any) -> None:
    """N9: the tool is otherwise the same, whichever way it was written."""
    made = prompt(section(tools=[tool]))
    (before,) = made.render().declared

    (after,) = with_tool(made, "shelf", "Look there.", before.description).render().declared

    assert (after.name, after.description) == ("shelf", "Look there.")
    assert (type(after), after.handler, after.timeout) == (
        type(before),
        before.handler,
        before.timeout,
    )
    assert made.render().declared == (before,)


def test_an_override_of_a_changed_tool_is_refused() -> None:
    """The digest of the description it was written for no longer fits."""
    made = with_tool(prompt(section(tools=[local()])), "local", "x", "old words")

    with pytest.raises(
        InvalidPrompt, match=r"section 'task': tool 'local' has changed since its override"
    ):
        made.render()


@pytest.mark.parametrize(
    "tool",
    [
        hosted("it"),
        native("it"),
        OpenAICodeInterpreterTool(name="it"),
        local("it", accepts_overrides=False),
    ],
)
def test_a_tool_can_refuse_overrides(tool: Any) -> None:
    """N9, X10: tools that a provider runs refuse them unless they say otherwise."""
    made = with_tool(prompt(section(tools=[tool])), "it", "x", tool.description)

    with pytest.raises(InvalidPrompt, match="section 'task': tool 'it' does not accept overrides"):
        made.render()


def test_an_override_of_no_tool_is_refused() -> None:
    """A misspelt name must not go unnoticed; the error lists the names there are."""
    made = with_tool(prompt(section(tools=[local("a"), native("b")])), "lokal", "x", "y")

    with pytest.raises(InvalidPrompt, match=r"override of tool 'lokal', .*there are: a, b$"):
        made.render()


def test_an_override_of_a_prompt_without_tools_is_refused() -> None:
    """The list of names may be empty, which is said in words."""
    with pytest.raises(InvalidPrompt, match="there are: none"):
        with_tool(prompt(section()), "local", "x", "y").render()


def test_a_description_keeps_the_rules_when_it_is_replaced() -> None:
    """A tool that could not have been declared is not made by an override either."""
    tool = native(accepts_overrides=True)

    with pytest.raises(InvalidPrompt, match="section 'task': its override: tool 'native'"):
        with_tool(prompt(section(tools=[tool])), "native", " ", tool.description).render()


def test_overrides_carry_digests() -> None:
    """A bare text says nothing about what it replaces, so it is refused."""
    texts: Any = {"task": "New."}

    with pytest.raises(InvalidPrompt, match=r"sections\['task'\] must be an Override.*not str"):
        Overrides(sections=texts)
    with pytest.raises(InvalidPrompt, match=r"tools\['task'\] must be an Override"):
        Overrides(tools=texts)


def test_overrides_do_not_change_with_their_source() -> None:
    """The mappings are copied, so that a prompt stays what it was."""
    given = {"task": Override("New.", digest_of("Do it."))}
    overrides = Overrides(sections=given)
    given.clear()
    read_only: Any = overrides.sections

    assert list(overrides.sections) == ["task"]
    with pytest.raises(TypeError, match="does not support item assignment"):
        read_only["other"] = 1
