"""Rendering: depth first, only what takes part, and in one pass."""

import sys
from typing import Any

import pytest

from tests.prompt.samples import (
    Question,
    hosted,
    local,
    look_up,
    names,
    native,
    never,
    prompt,
    section,
)
from toolcrib import MarkdownSection, Section
from toolcrib.errors import InvalidPrompt


def tree(**options: Any) -> MarkdownSection[Any]:
    """A section with tools, a child and a grandchild; `options` go to the child."""
    grandchild = section("c", tools=[local("in_c")], hosted_tools=[hosted("host_c")])
    child = section(
        "b",
        tools=[local("in_b")],
        hosted_tools=[hosted("host_b")],
        children=[grandchild],
        **options,
    )
    return section("a", tools=[local("in_a")], children=[child])


def test_sections_are_rendered_depth_first() -> None:
    """H28: a section, its children, then its next sibling; headings go down with the depth."""
    rendered = prompt(tree(), section("d", tools=[local("in_d")])).render()

    assert rendered.text == (
        "## A\n\nDo it.\n\n### B\n\nDo it.\n\n#### C\n\nDo it.\n\n## D\n\nDo it."
    )
    assert names(rendered.declared) == ["in_a", "in_b", "host_b", "in_c", "host_c", "in_d"]
    assert names(rendered.tools) == ["in_a", "in_b", "in_c", "in_d"]
    assert names(rendered.hosted_tools) == ["host_b", "host_c"]


def test_headings_stop_at_six() -> None:
    """Markdown knows no deeper heading."""
    made = section("x")
    for _ in range(8):
        made = section("x", children=[made])

    last = prompt(made).render().text.splitlines()[-3]

    assert last == "###### X"


def test_a_section_without_text_is_its_heading() -> None:
    """An empty template leaves no trailing blank lines."""
    assert prompt(section("a", ""), section("b", "")).render().text == "## A\n\n## B"


def test_a_disabled_tree_contributes_nothing() -> None:
    """H4: neither text nor tools of a disabled section, nor of anything below it."""
    rendered = prompt(tree(enabled=never)).render()

    assert rendered.text == "## A\n\nDo it."
    assert names(rendered.declared) == ["in_a"]


def test_a_summary_contributes_its_line_only() -> None:
    """H4: a section shown by its summary offers no tools and hides its children and theirs."""
    rendered = prompt(tree(visibility="summary", summary="There is more.")).render()

    assert rendered.text == "## A\n\nDo it.\n\n### B\n\nThere is more."
    assert names(rendered.declared) == ["in_a"]


def test_what_is_out_needs_no_values() -> None:
    """A disabled tree and the children of a summary are not filled, so nothing is missing."""
    off = section("off", "$a", enabled=never, children=[section(params_type=Question)])
    short = section(
        "short", "$b", summary="S.", visibility="summary", children=[section("x", "$c")]
    )

    assert prompt(off, short).render().text == "## Short\n\nS."


def test_every_style_of_tool_can_be_offered() -> None:
    """N1, N10: functions, tools and provider-run tools are declared side by side."""
    rendered = prompt(section(tools=[look_up, native(), local(), hosted()])).render()

    assert names(rendered.declared) == ["look_up", "native", "local", "hosted"]
    assert names(rendered.tools) == ["look_up", "local"]
    assert names(rendered.hosted_tools) == ["native", "hosted"]


@pytest.mark.parametrize("thing", [5, "name", lambda: None, type(look_up)])
def test_what_is_no_tool_is_refused(thing: Any) -> None:
    """N10: found when the section is written, and the section is named."""
    with pytest.raises(InvalidPrompt, match=r"section 'task': .* is not a tool"):
        section(tools=[thing])


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (local("same"), local("same")),
        (local("same"), hosted("same")),
        (native("same"), local("same")),
        (hosted("same"), native("same")),
    ],
)
def test_two_tools_cannot_share_a_name(first: Any, second: Any) -> None:
    """H9, N10: names are unique wherever the tools run; the error names both places."""
    made = prompt(
        section("a", tools=[first]), section("b", children=[section("c", tools=[second])])
    )

    with pytest.raises(
        InvalidPrompt,
        match=r"^prompt 'tests:sample': section 'b/c': .* second tool named 'same', .*section 'a'",
    ):
        made.render()


def test_two_tools_of_one_section_cannot_share_a_name() -> None:
    """H9: also when one comes as a hosted tool."""
    made = prompt(section(tools=[local("same")], hosted_tools=[hosted("same")]))

    with pytest.raises(InvalidPrompt, match=r"section 'task': .* second tool named 'same'"):
        made.render()


def test_alternatives_may_share_a_name() -> None:
    """H4, H9: what is not offered does not count, so flags can choose between two tools."""
    made = prompt(
        section("a", tools=[local("same")], enabled=never),
        section("b", hosted_tools=[hosted("same")]),
    )

    assert names(made.render().hosted_tools) == ["same"]


def test_rendering_twice_gives_the_same() -> None:
    """Nothing is left behind by a rendering."""
    made = prompt(tree())

    assert made.render() == made.render()


def calls_to_render(sections: list[Section[Any]]) -> int:
    """How many calls it takes to make a prompt of the sections and to render it."""
    count = 0

    def note(_frame: object, event: str, _argument: object) -> None:
        nonlocal count
        count += event in ("call", "c_call")

    sys.setprofile(note)
    try:
        prompt(*sections).bind(value="x").render()
    finally:
        sys.setprofile(None)
    return count


def flat(count: int) -> list[Section[Any]]:
    return [
        section(f"s{number}", "$value", tools=[local(f"t{number}"), native(f"n{number}")])
        for number in range(count)
    ]


def deep(count: int) -> list[Section[Any]]:
    made = flat(count)
    for outer, inner in zip(reversed(made[:-1]), reversed(made[1:]), strict=True):
        outer.children = (inner,)
    return made[:1]


def crowded(count: int) -> list[Section[Any]]:
    return [section("all", "$value", hosted_tools=[hosted(f"t{n}") for n in range(count)])]


@pytest.mark.parametrize("shape", [flat, deep, crowded])
def test_rendering_is_linear(shape: Any) -> None:
    """Twice the sections or tools take twice the work, side by side or one within the other."""
    calls_to_render(shape(5))

    small, large = calls_to_render(shape(100)), calls_to_render(shape(200))

    assert large < 2.1 * small
