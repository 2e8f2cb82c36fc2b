"""Structured output: the schema of a type, and answers that fit it or do not."""

import re
from collections.abc import Callable
from dataclasses import dataclass, make_dataclass
from threading import Thread
from typing import Annotated, Any, Generic, Literal, Optional, TypeVar

import pytest
from pydantic import BaseModel, Field, field_validator
from pydantic_core import PydanticCustomError

from tests.prompt.samples import prompt, section
from toolcrib import Prompt
from toolcrib.errors import InvalidPrompt, OutputMismatch
from toolcrib.prompt import OutputSchema

LEAK = "hunter2"
T = TypeVar("T")


@dataclass
class Step:
    title: str
    minutes: int


@dataclass
class Plan:
    steps: list[Step]
    note: str | None = None


class Verdict(BaseModel):
    is_true: bool
    score: Annotated[float, Field(ge=0, le=1)]


class Cat(BaseModel):
    kind: Literal["cat"]


class Dog(BaseModel):
    kind: Literal["dog"]


class Owner(BaseModel):
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    token: str = ""
    code: str = ""

    @field_validator("token")
    @classmethod
    def refuse(cls, token: str) -> str:
        raise ValueError(f"bad token {token}")

    @field_validator("code")
    @classmethod
    def refuse_too(cls, code: str) -> str:
        raise PydanticCustomError("my_code", "bad code {code}", {"code": code})


def schema_of(output_type: Any) -> OutputSchema[Any]:
    made = Prompt[output_type](ns="tests", key="sample", sections=[section()])
    schema = made.render().output
    assert schema is not None
    return schema


def test_an_answer_becomes_a_dataclass() -> None:
    """The brackets of the prompt say what its answer is parsed into."""
    schema = schema_of(Plan)

    assert schema.name == "Plan"
    assert schema.schema["properties"]["steps"]["items"] == {"$ref": "#/$defs/Step"}
    assert schema.parse('{"steps": [{"title": "Walk", "minutes": 5}]}') == Plan([Step("Walk", 5)])


@dataclass
class Page(Generic[T]):
    items: list[T]


@pytest.mark.parametrize(
    ("output_type", "name", "answer", "expected"),
    [
        (Page[int], "Page[int]", '{"items": [1]}', Page([1])),
        (Page[list[Step]], "Page[list[Step]]", '{"items": [[]]}', Page([[]])),
    ],
)
def test_an_answer_becomes_a_generic_dataclass(
    output_type: Any, name: str, answer: str, expected: Any
) -> None:
    """A type whose parameters are filled in is held to them."""
    schema = schema_of(output_type)

    assert schema.name == name
    assert schema.parse(answer) == expected
    with pytest.raises(OutputMismatch, match=re.escape(f"does not fit {name}: /items/0")):
        schema.parse('{"items": ["x"]}')


def test_an_answer_becomes_a_pydantic_model() -> None:
    """Models keep their own constraints."""
    schema = schema_of(Verdict)

    assert schema.schema["properties"]["score"]["maximum"] == 1
    assert schema.parse('{"is_true": true, "score": 0.5}') == Verdict(is_true=True, score=0.5)


def test_text_needs_no_schema() -> None:
    """Without an output type, and with str, the answer is the text."""
    assert Prompt(ns="a", key="b", sections=[section()]).render().output is None
    assert prompt(section()).render().output is None


def test_the_output_type_can_be_an_argument() -> None:
    """For a type that is only known at runtime."""
    made = Prompt(ns="a", key="b", sections=[section()], output_type=Plan)

    assert made.bind().render().output is not None


def test_a_derived_prompt_keeps_its_output_type() -> None:
    """`class Planning(Prompt[Plan])` asks for a Plan without saying so twice."""

    class Planning(Prompt[Plan]): ...

    rendered = Planning(ns="a", key="b", sections=[section()]).bind().render()

    assert rendered.output is not None
    assert rendered.output.name == "Plan"


@pytest.mark.parametrize(
    ("output_type", "answer", "value"),
    [
        (list[int], '{"value": [1, 2]}', [1, 2]),
        (int, '{"value": 7}', 7),
        (list[Plan], '{"value": [{"steps": []}]}', [Plan([])]),
        (Literal["yes", "no"], '{"value": "no"}', "no"),
        (int | None, '{"value": null}', None),
        (dict[str, float], '{"value": {"a": 0.5}}', {"a": 0.5}),
    ],
    ids=str,
)
def test_types_without_fields_are_wrapped(output_type: Any, answer: str, value: Any) -> None:
    """Finding 19: `Prompt[list[int]]` works. Providers ask for an object, so the value is the one
    field of it, and a fault says where it is.
    """
    output = Prompt(ns="a", key="b", sections=[section()], output_type=output_type).render().output

    assert output is not None
    assert (output.schema["type"], output.schema["required"]) == ("object", ["value"])
    assert output.parse(answer) == value
    with pytest.raises(OutputMismatch, match="/value"):
        output.parse('{"value": {"x": []}}')


@pytest.mark.parametrize(
    ("output_type", "name"),
    [
        (int | None, "int | None"),
        (Optional[list[int]], "list[int] | None"),  # noqa: UP045
        (list[Plan | None], "list[Plan | None]"),
    ],
)
def test_errors_name_a_union_as_it_is_written(output_type: Any, name: str) -> None:
    """An error that says which type an answer does not fit has to be readable."""
    with pytest.raises(OutputMismatch, match=f"does not fit {re.escape(name)}: "):
        schema_of(output_type).parse('{"value": {"x": []}}')


@pytest.mark.parametrize("output_type", [dict, list, Any, bytes, Plan([]), "Plan"])
def test_other_output_types_are_refused(output_type: Any) -> None:
    """A type that says nothing of the answer; found when the prompt is written."""
    with pytest.raises(
        InvalidPrompt, match="prompt 'a:b': a prompt's output is a dataclass, a pydantic model"
    ):
        Prompt(ns="a", key="b", sections=[section()], output_type=output_type)


@pytest.mark.parametrize("kind", [Thread, Callable[[], None], "NotThere"])
def test_an_output_type_without_a_schema_is_refused(kind: Any) -> None:
    """A field that JSON cannot hold is found before anything is sent, and told in one line."""
    odd = make_dataclass("Odd", [("field", kind)])

    with pytest.raises(InvalidPrompt, match=r"^prompt 'a:b': the output type Odd has no JSON .*$"):
        Prompt(ns="a", key="b", sections=[section()], output_type=odd).render()


@pytest.mark.parametrize(
    ("answer", "faults"),
    [
        (
            '{"steps": [{"title": "Walk", "minutes": "hunter2"}]}',
            ["/steps/0/minutes: Input should"],
        ),
        ('{"steps": [{"title": 5}, 7]}', ["/steps/0/title: ", "/steps/0/minutes: ", "/steps/1: "]),
        ('{"note": "hunter2"}', ["/steps: Field required"]),
        ("hunter2", ["Plan: Invalid JSON: expected value at line 1 column 1"]),
        ('{"steps": ["hunter2', ["Plan: Invalid JSON: EOF"]),
        ('["hunter2"]', ["Plan: Input should be an object"]),
        ("", ["Plan: Invalid JSON"]),
    ],
)
def test_a_mismatch_says_where_and_not_what(answer: str, faults: list[str]) -> None:
    """The error has a pointer to each fault and nothing of the answer."""
    with pytest.raises(OutputMismatch, match=r"^the answer does not fit Plan: ") as caught:
        schema_of(Plan).parse(answer)

    assert all(fault in str(caught.value) for fault in faults)
    assert LEAK not in str(caught.value)
    assert (caught.value.__cause__, caught.value.__suppress_context__) == (None, True)


@pytest.mark.parametrize(
    ("answer", "place"),
    [
        ('{"pet": {"kind": "cat"}, "token": "hunter2"}', "/token: The value is not valid."),
        ('{"pet": {"kind": "cat"}, "code": "hunter2"}', "/code: The value is not valid."),
        ('{"pet": {"kind": "hunter2"}}', "/pet: 'kind' must be one of 'cat', 'dog'"),
    ],
)
def test_no_validator_repeats_the_answer(answer: str, place: str) -> None:
    """The words of a type's own validators may quote the value, so they are left out."""
    with pytest.raises(OutputMismatch) as caught:
        schema_of(Owner).parse(answer)

    assert str(caught.value) == f"the answer does not fit Owner: {place}"


def test_a_long_list_of_faults_is_cut() -> None:
    """Five faults are enough to see what is wrong."""
    with pytest.raises(OutputMismatch) as caught:
        schema_of(Plan).parse('{"steps": [1, 2, 3, 4, 5, 6, 7]}')

    assert "/steps/4" in str(caught.value)
    assert "/steps/5" not in str(caught.value)
