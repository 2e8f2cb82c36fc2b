"""Sections: their rules, their clones, and how they come by their params."""

import copy
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

import pytest

from tests.prompt.samples import Flags, Question, hosted, local, names, prompt, section
from toolcrib import MarkdownSection, Section
from toolcrib.errors import InvalidPrompt
from toolcrib.tools.web_search import WebSearchSection


class Listing(Section[Flags]):
    """A section whose text is computed."""

    def body(self, values: Mapping[str, Any]) -> str:
        return "\n".join(f"- {name}" for name in values["names"])

    @property
    def source(self) -> str:
        return "one line for each name"


@pytest.mark.parametrize("key", ["", "Task", "a/b", "a b", "ä", "x" * 65, "a\n", 5])
def test_a_key_must_fit_into_a_path(key: Any) -> None:
    """Paths are made of keys, so a key has no slash, no space and no capital."""
    with pytest.raises(InvalidPrompt, match=r"a section's key must match .*does not"):
        MarkdownSection(title="Task", key=key, template="x")


@pytest.mark.parametrize("title", ["", "  ", "a\nb", "a\rb", "a\u2028b", 5])
def test_a_title_is_one_line(title: Any) -> None:
    """A line break in a heading would end it."""
    with pytest.raises(InvalidPrompt, match="section 'task': the title must be one line"):
        MarkdownSection(title=title, key="task", template="x")


def test_two_children_cannot_share_a_key() -> None:
    """A path names one section; the error says which section has the two, and their key."""
    with pytest.raises(InvalidPrompt, match=r"section 'top': there are two sections .* 'same'"):
        section("top", children=[section("same"), section("same")])


def test_two_sections_of_a_prompt_cannot_share_a_key() -> None:
    """The same among the sections of a prompt; the error names the prompt."""
    with pytest.raises(InvalidPrompt, match=r"prompt 'tests:sample': there are two .* 'same'"):
        prompt(section("same"), section("same"))


def test_one_key_may_stand_at_two_paths() -> None:
    """Only siblings collide: `a/notes` and `b/notes` are two places."""
    made = prompt(
        section("a", children=[section("notes", "one")]),
        section("b", children=[section("notes", "two")]),
    )

    assert made.render().text.count("## Notes") == 2


@pytest.mark.parametrize("child", ["text", None, MarkdownSection])
def test_only_sections_can_be_children(child: Any) -> None:
    """A text or a class in the list is refused when it is written, not when it is rendered."""
    with pytest.raises(InvalidPrompt, match=r"section 'top': .* is not a section"):
        section("top", children=[child])
    with pytest.raises(InvalidPrompt, match=r"prompt 'tests:sample': .* is not a section"):
        prompt(child)


def test_an_unknown_visibility_is_refused() -> None:
    """A misspelt visibility must not count as full."""
    with pytest.raises(InvalidPrompt, match=r"section 'task': visibility is .* not 'sumary'"):
        section(visibility="sumary")


def test_a_summary_to_show_must_be_there() -> None:
    """H4: a section that shows its summary needs one."""
    with pytest.raises(InvalidPrompt, match=r"section 'task': .*give `summary`"):
        section(visibility="summary")


@pytest.mark.parametrize("params_type", [int, dict, Question("q"), "Question"])
def test_params_are_a_dataclass(params_type: Any) -> None:
    """A template is filled from named fields, which only a dataclass type has."""
    with pytest.raises(InvalidPrompt, match="section 'task': params must be a dataclass, not"):
        section(params_type=params_type)


@pytest.mark.parametrize("answer", ["no", 0, None, [1]])
def test_a_predicate_must_say_yes_or_no(answer: Any) -> None:
    """N29: the text "no" counts as true in Python, and would offer what was to stay out."""

    def is_on(_: object) -> Any:
        return answer

    made = prompt(section(enabled=is_on, tools=[local()]))

    with pytest.raises(InvalidPrompt, match="section 'task': enabled must return True or False"):
        made.render()


def test_a_predicate_sees_the_params_of_its_section() -> None:
    """N29: a flag in the params switches a section and its tools on and off."""
    seen: list[object] = []

    def is_on(flags: Flags) -> bool:
        seen.append(flags)
        return flags.is_on

    made = prompt(
        MarkdownSection[Flags](
            title="More", key="more", template="More.", enabled=is_on, tools=[local()]
        )
    )

    off, on = made.render(), made.bind(Flags(is_on=True)).render()

    assert seen == [Flags(), Flags(is_on=True)]
    assert (off.text, off.declared) == ("", ())
    assert (on.text, names(on.declared)) == ("## More\n\nMore.", ["local"])


def test_a_predicate_of_a_section_without_params_sees_none() -> None:
    """N29: there is always one argument, so one predicate fits every section."""
    seen: list[object] = []

    def note(params: object) -> bool:
        seen.append(params)
        return True

    prompt(section(enabled=note)).render()

    assert seen == [None]


def test_a_derived_section_names_its_params_in_the_brackets() -> None:
    """`class Listing(Section[Flags])` is filled from Flags without saying so twice."""
    made = prompt(Listing(title="Names", key="names"))

    assert made.bind(Flags(names=("a", "b"))).render().text == "## Names\n\n- a\n- b"


def test_params_pass_through_a_generic_section_in_between() -> None:
    """The brackets of the nearest class that fills them count."""
    p = TypeVar("p")

    class Framed(MarkdownSection[p]): ...

    class Asked(Framed[Question]): ...

    class Again(Asked): ...

    made = prompt(Again(title="Ask", key="ask", template="$question"))

    assert made.bind(Question("Why?")).render().text == "## Ask\n\nWhy?"


def test_a_clone_is_a_section_of_its_own() -> None:
    """H26: the clone has its changes and everything else of the original, which stays."""
    original = WebSearchSection()
    cloned = original.clone(key="again", enabled=lambda _: False)

    assert isinstance(cloned, WebSearchSection)
    assert (cloned.key, cloned.title, cloned.template) == ("again", "Web Search", original.template)
    assert cloned.hosted_tools() == original.hosted_tools()
    assert names(prompt(original, cloned).render().hosted_tools) == ["web_search"]


def test_a_clone_does_not_change_with_its_source() -> None:
    """H26: a list of children is copied, as a section copies it."""
    children = [section("a")]
    cloned = section().clone(children=children)
    children.append(section("a"))

    assert [child.key for child in cloned.children] == ["a"]


def test_a_clone_keeps_the_rules() -> None:
    """What a section refuses, its clone refuses."""
    original = section(summary="Short.", params_type=Question)

    assert original.clone(visibility="summary").visibility == "summary"
    with pytest.raises(InvalidPrompt, match="must match"):
        original.clone(key="No")
    with pytest.raises(InvalidPrompt, match=r"uses \$other"):
        original.clone(summary="$other")
    with pytest.raises(InvalidPrompt, match="two sections with the key 'a'"):
        original.clone(children=[section("a"), section("a")])


def test_a_clone_cannot_change_just_anything() -> None:
    """A misspelt change would otherwise do nothing."""
    changes: Any = {"tool": [local()]}

    with pytest.raises(InvalidPrompt, match="section 'task': a clone cannot change 'tool'"):
        section().clone(**changes)


@pytest.mark.parametrize("copied", [copy.copy, copy.deepcopy])
def test_a_section_can_be_copied(copied: Any) -> None:
    """H26: a copy renders like the original, with its tools and its children."""
    original = section(
        template="Ask $question.",
        params_type=Question,
        tools=[local()],
        hosted_tools=[hosted()],
        children=[section("inner")],
    )

    made = prompt(copied(original)).bind(Question("Why?"))

    assert made.render().text == prompt(original).bind(Question("Why?")).render().text
    assert names(made.render().declared) == ["local", "hosted"]


def test_a_section_can_be_shared_by_prompts() -> None:
    """A section keeps nothing of the prompts that it is part of."""
    shared = section(template="Ask $question.", params_type=Question, tools=[local()])
    one, two = prompt(shared, section("other")), prompt(shared)

    assert one.bind(Question("a")).render().text == "## Task\n\nAsk a.\n\n## Other\n\nDo it."
    assert two.bind(Question("b")).render().text == "## Task\n\nAsk b."
    assert one.bind(Question("a")).render().tools == two.bind(Question("b")).render().tools


def test_params_without_required_fields_need_no_binding() -> None:
    """Defaults and what the params work out for themselves are enough."""

    @dataclass
    class Tone:
        words: list[str] = field(default_factory=lambda: ["plain"])
        tone: str = field(init=False)

        def __post_init__(self) -> None:
            self.tone = self.words[0]

    assert (
        prompt(section(template="Be $tone.", params_type=Tone)).render().text.endswith("Be plain.")
    )
