"""Placeholders: filled from params or from names, checked early, and never filled twice."""

from collections.abc import Mapping
from dataclasses import dataclass, make_dataclass
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.prompt.samples import Flags, Question, never, prompt, section
from toolcrib import MarkdownSection, Section
from toolcrib.errors import InvalidPrompt
from toolcrib.prompt import Override, Overrides, digest_of


@pytest.mark.parametrize("template", ["Ask: $question", "Ask: ${question}"])
def test_a_typed_section_is_filled_from_its_params(template: str) -> None:
    """Both ways to write a placeholder are filled from the dataclass that the section names."""
    made = prompt(section(template=template, params_type=Question))

    assert made.bind(Question("Why?")).render().text == "## Task\n\nAsk: Why?"


def test_a_section_without_params_is_filled_by_name() -> None:
    """The short form: `bind(name=...)`, with values of any type."""
    made = prompt(section(template="$count times ${what}ing at $$5"))

    assert made.bind(count=3, what="sing").render().text == "## Task\n\n3 times singing at $5"


def test_two_dollars_are_one_and_start_no_name() -> None:
    """`$$name` is a dollar and a word."""
    assert prompt(section(template="$$name costs $$$$")).render().text.endswith("$name costs $$")


@given(st.text(), st.text())
def test_any_text_survives_rendering(first: str, second: str) -> None:
    """Values are put in verbatim: no stripping, no filling, no escaping, wherever they stand."""
    made = prompt(
        section("typed", "$question", params_type=Question),
        section("named", "[$value]$value", children=[section("last", "${value}")]),
    )

    text = made.bind(Question(first), value=second).render().text

    blocks = [f"## Typed\n\n{first}", f"## Named\n\n[{second}]{second}", f"### Last\n\n{second}"]
    # An empty value leaves an empty text, and then the heading stands alone.
    assert text == "\n\n".join(
        block.removesuffix("\n\n") if block.endswith(("Typed\n\n", "Last\n\n")) else block
        for block in blocks
    )


@given(st.text())
def test_any_text_survives_in_an_override_and_a_summary(value: str) -> None:
    """The texts that stand in for a template are filled in the same way."""
    made = prompt(
        section("a", "Do it."), section("b", "Never.", summary="<$value>", visibility="summary")
    )
    replaced = made.with_overrides(Overrides({"a": Override("($value)", digest_of("Do it."))}))

    text = replaced.bind(value=value).render().text

    assert text == f"## A\n\n({value})\n\n## B\n\n<{value}>"


@pytest.mark.parametrize("value", ["$other", "${other}", "$$", "$", "\\g<0>", "\\1", "{0}", "%s"])
def test_a_value_is_no_template(value: str) -> None:
    """What comes from a user cannot reach another value."""
    made = prompt(section(template="$value and $other")).bind(value=value, other="secret")

    assert made.render().text.endswith(f"{value} and secret")


@pytest.mark.parametrize("text", ["costs $5", "a $", "${", "${a", "$ä", "${a b}"])
def test_a_dollar_that_starts_no_name_is_refused(text: str) -> None:
    """A forgotten second dollar is found when the section is written, with its line."""
    with pytest.raises(InvalidPrompt, match=r"section 'task': the '\$' in line 2 .*write '\$\$'"):
        section(template=f"first\n{text}")
    with pytest.raises(InvalidPrompt, match=r"section 'task': the '\$' in line 2 .*write '\$\$'"):
        section(summary=f"first\n{text}")


@pytest.mark.parametrize("part", ["template", "summary"])
def test_a_name_that_the_params_lack_is_refused(part: str) -> None:
    """An unknown placeholder is found when the section is written; the error lists the fields."""
    with pytest.raises(
        InvalidPrompt, match=r"section 'task': the text uses \$answer, .*Flags has only: is_on, na"
    ):
        section(params_type=Flags, **{part: "$is_on $answer"})


def test_params_without_fields_fill_nothing() -> None:
    """A section can name empty params to say that it is filled from nothing."""
    empty = make_dataclass("EmptyParams", [])

    assert prompt(section(template="Plain.", params_type=empty)).render().text.endswith("Plain.")
    with pytest.raises(InvalidPrompt, match="EmptyParams has only: no fields"):
        section(template="$x", params_type=empty)


def test_missing_values_are_all_named_with_their_place() -> None:
    """The error names prompt, path and every missing name, and shows the call that is missing."""
    made = prompt(section("top", children=[section("inner", "$b $a $c")])).bind(c=1)

    with pytest.raises(
        InvalidPrompt,
        match=r"^prompt 'tests:sample': section 'top/inner': no value for \$a, \$b; "
        r"bind it: prompt\.bind\(a=\.\.\., b=\.\.\.\)$",
    ):
        made.render()


def test_missing_params_are_named_with_their_place() -> None:
    """The same for params: the error names their type and the fields they need."""
    made = prompt(section("top", children=[section("inner", params_type=Question)]))

    with pytest.raises(
        InvalidPrompt,
        match=r"^prompt 'tests:sample': section 'top/inner': it is filled from Question, .*"
        r"prompt\.bind\(Question\(question=\.\.\.\)\)$",
    ):
        made.render()


def test_params_that_break_say_so_themselves() -> None:
    """An error inside the params' own defaults is not taken for missing params."""

    @dataclass
    class Broken:
        number: int = 5

        def __post_init__(self) -> None:
            raise TypeError("broken on purpose")

    with pytest.raises(TypeError, match="broken on purpose"):
        prompt(section(params_type=Broken)).render()


@pytest.mark.parametrize("given", [5, "text", None, Flags()])
def test_params_of_a_wrong_type_are_refused(given: Any) -> None:
    """Binding what no section takes is a mistake, found where it is made."""
    made = prompt(section(params_type=Question))

    with pytest.raises(
        InvalidPrompt, match=r"prompt 'tests:sample': no section is filled from .*from: Question$"
    ):
        made.bind(given)


def test_a_class_is_no_params() -> None:
    """`bind(Question)` forgets to make one."""
    with pytest.raises(InvalidPrompt, match="bind an instance of Question, not the class"):
        prompt(section(params_type=Question)).bind(Question)


def test_params_of_a_subclass_are_refused() -> None:
    """Sections name one type, and its subclass might stand for another section."""

    @dataclass(frozen=True)
    class Sharper(Question): ...

    with pytest.raises(InvalidPrompt, match="no section is filled from Sharper"):
        prompt(section(params_type=Question)).bind(Sharper("Why?"))


def test_two_params_of_one_type_are_refused() -> None:
    """One of them would silently be dropped."""
    with pytest.raises(InvalidPrompt, match="two params of one type"):
        prompt(section(params_type=Question)).bind(Question("a"), Question("b"))


def test_params_under_the_wrong_type_are_refused() -> None:
    """The constructor's mapping is checked like what `bind` gets."""
    with pytest.raises(InvalidPrompt, match="given as Flags"):
        prompt(section(params_type=Question), params={Question: Flags()})


def test_a_value_that_nothing_asks_for_is_refused() -> None:
    """A misspelt name, or a name for a section that is filled from params, is no small thing."""
    made = prompt(section("named", "$topic"), section("typed", "$is_on", params_type=Flags))

    with pytest.raises(
        InvalidPrompt, match=r"prompt 'tests:sample': .* value for \$topik, .*they use: topic$"
    ):
        made.bind(topic="x", topik="y").render()
    with pytest.raises(InvalidPrompt, match=r"a value for \$is_on, which no section without"):
        made.bind(topic="x", is_on=True).render()


def test_a_value_for_a_section_that_is_out_is_no_mistake() -> None:
    """Whether a section takes part is not always known when its values are bound."""
    made = prompt(
        section("off", "$a", enabled=never),
        section("short", "$b", summary="$c", visibility="summary", children=[section("in", "$d")]),
    )

    assert made.bind(a=1, b=2, c=3, d=4).render().text == "## Short\n\n3"


def test_a_computed_section_may_use_any_value() -> None:
    """Only rendering can tell what a body of its own asks for."""

    class Count(Section[None]):
        def body(self, values: Mapping[str, Any]) -> str:
            return str(len(values))

        @property
        def source(self) -> str:
            return "how many values"

    class Shout(MarkdownSection[None]):
        def body(self, values: Mapping[str, Any]) -> str:
            return super().body(values).upper() + values["mark"]

    assert prompt(Count(title="N", key="n")).bind(a=1, b=2).render().text == "## N\n\n2"
    shout = prompt(Shout(title="N", key="n", template="say $word"))
    assert shout.bind(word="so", mark="!").render().text == "## N\n\nSAY SO!"
