"""Prompts: named, immutable, and bound step by step."""

import dataclasses
from typing import Any

import pytest

from tests.prompt.samples import Flags, Question, prompt, section
from toolcrib import Prompt
from toolcrib.errors import InvalidPrompt
from toolcrib.prompt import Overrides


def test_a_prompt_is_named_by_namespace_and_key() -> None:
    """X17: events and errors call it by both, and so does what it renders to."""
    made = Prompt(ns="research", key="lookup", sections=[section()])

    assert made.name == "research:lookup"
    assert made.render().name == "research:lookup"


@pytest.mark.parametrize("part", ["ns", "key"])
@pytest.mark.parametrize("text", ["", "A", "a b", "a:b", "a/b", "x" * 65, "a\n"])
def test_names_are_plain(part: str, text: str) -> None:
    """X17: a name can be written into a file name or a metric."""
    fields: dict[str, Any] = {"ns": "a", "key": "b", "sections": (), part: text}

    with pytest.raises(InvalidPrompt, match=r"ns and key must match"):
        Prompt(**fields)


@pytest.mark.parametrize("field", [field.name for field in dataclasses.fields(prompt(section()))])
def test_no_field_can_be_set(field: str) -> None:
    """A prompt that was checked stays as it was."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(prompt(section()), field, None)


def test_binding_gives_a_new_prompt() -> None:
    """One prompt can be bound to many questions, also at the same time."""
    made = prompt(section("a", "$question", params_type=Question), section("b", "$topic"))
    one = made.bind(Question("one"), topic="x")
    two = made.bind(Question("two"), topic="y")

    assert (dict(made.params), dict(made.values)) == ({}, {})
    assert one.render().text == "## A\n\none\n\n## B\n\nx"
    assert two.render().text == "## A\n\ntwo\n\n## B\n\ny"


def test_binding_adds_to_what_is_bound() -> None:
    """What is bound again is replaced; the rest stays."""
    made = prompt(section("a", "$question $x $y"), section("b", "$is_on", params_type=Flags))

    first = made.bind(Flags(), question="Q", x=1, y=2)
    second = first.bind(Flags(is_on=True), x=3)

    assert first.render().text == "## A\n\nQ 1 2\n\n## B\n\nFalse"
    assert second.render().text == "## A\n\nQ 3 2\n\n## B\n\nTrue"


def test_a_placeholder_may_be_called_self() -> None:
    """No parameter of `bind` stands in the way of a name."""
    assert prompt(section(template="$self")).bind(self="me").render().text == "## Task\n\nme"


def test_what_a_prompt_was_made_from_can_change() -> None:
    """Lists and mappings are copied, so the prompt does not change with them."""
    sections, values = [section("a", "$x")], {"x": 1}
    made = Prompt(ns="a", key="b", sections=sections, values=values)
    sections.clear()
    values["x"] = 2
    read_only: Any = made.values

    assert made.render().text == "## A\n\n1"
    with pytest.raises(TypeError, match="does not support item assignment"):
        read_only["x"] = 3


def test_prompts_of_the_same_parts_are_equal() -> None:
    """A prompt is a value: it can be compared and put into a set."""
    shared = section(template="$x")

    assert prompt(shared).bind(x=1) == prompt(shared).bind(x=1)
    assert prompt(shared).bind(x=1) != prompt(shared).bind(x=2)
    assert len({prompt(shared), prompt(shared)}) == 1


def test_bindings_and_overrides_are_independent() -> None:
    """Each keeps what the other has set."""
    made = prompt(section(template="$x")).bind(x=1).with_overrides(Overrides()).bind(x=2)

    assert made.render().text == "## Task\n\n2"
