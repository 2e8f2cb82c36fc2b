"""Faults: where the arguments are wrong and why, without repeating them."""

from dataclasses import dataclass
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field, SecretStr, field_validator, model_validator

from toolcrib.failures import Fault
from toolcrib.tools.faults import HIDDEN, pointer_of
from toolcrib.tools.params import (
    PreparedParams,
    params_of_function,
    params_of_schema,
    params_of_type,
)
from toolcrib.tools.secrets import Secret


@dataclass
class Inner:
    size: int


@dataclass
class Cat:
    kind: Literal["cat"]
    lives: int


@dataclass
class Dog:
    kind: Literal["dog"]
    tricks: list[int]


@dataclass
class Outer:
    text: str
    inner: Inner
    many: list[Inner]
    table: dict[str, Inner]
    either: int | Inner = 0
    pet: Annotated[Cat | Dog, Field(discriminator="kind")] | None = None
    by_number: dict[int, str] | None = None


SOUND = '"text": "a", "inner": {"size": 1}, "many": [], "table": {}'
PARAMS = params_of_type("t", Outer)


def faults(params: PreparedParams, raw: str) -> tuple[Fault, ...]:
    with pytest.raises(ValueError) as caught:  # noqa: PT011
        params.parse(raw)
    return params.faults(caught.value)


def pointers(raw: str) -> set[str]:
    return {fault.pointer for fault in faults(PARAMS, raw)}


def test_every_fault_is_told_at_once() -> None:
    """R45: one answer lists them all, each with its pointer."""
    found = faults(PARAMS, '{"text": 5, "inner": {"size": "big"}, "many": [], "more": 1}')

    assert found == (
        Fault("/text", "Input should be a valid string"),
        Fault("/inner/size", "Input should be a valid integer"),
        Fault("/table", "Field required"),
        Fault("/more", "Unexpected keyword argument"),
    )


@pytest.mark.parametrize(
    ("extra", "expected"),
    [
        ('"many": [{"size": 1}, {"size": null}]', {"/many/1/size"}),
        ('"many": [5]', {"/many/0"}),
        ('"table": {"a/b~c": {"size": ""}}', {"/table/a~1b~0c/size"}),
        ('"either": {"size": "x"}', {"/either", "/either/size"}),
        ('"either": []', {"/either"}),
        ('"pet": {"kind": "cat", "lives": "9"}', {"/pet/lives"}),
        ('"pet": {"kind": "dog", "tricks": [1, "x"]}', {"/pet/tricks/1"}),
        ('"pet": {"kind": "dog", "tricks": [], "more": 1}', {"/pet/more"}),
        ('"pet": {"kind": "cow"}', {"/pet"}),
        ('"inner": {"size": 1, "more": 2}', {"/inner/more"}),
        ('"by_number": {"x": "y"}', {"/by_number/x"}),
    ],
)
def test_pointers_lead_into_the_arguments(extra: str, expected: set[str]) -> None:
    """R45: a pointer names a place in what was sent; branches of a union are no places."""
    assert pointers(f"{{{SOUND}, {extra}}}") == expected


def test_what_is_no_json_is_one_fault_on_top() -> None:
    """R45: the pointer to everything is the empty one."""
    (fault,) = faults(PARAMS, '{"text": hunter2}')

    assert fault.pointer == ""
    assert "Invalid JSON" in fault.message
    assert "hunter2" not in fault.message


SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "sql": {"type": "string", "minLength": 3},
        "options": {
            "type": "object",
            "properties": {"depth": {"enum": [1, 2]}},
            "required": ["depth"],
            "additionalProperties": False,
        },
        "token": {"type": "string", "writeOnly": True, "pattern": "^t-"},
        "auth": {
            "type": "object",
            "format": "password",
            "properties": {"pin": {"type": "integer"}},
        },
        "ids": {"type": "array", "items": {"type": "integer"}},
    },
    "required": ["sql"],
}


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        ("{}", [Fault("/sql", "Field required")]),
        ('{"sql": 5}', [Fault("/sql", 'The value is not of type "string"')]),
        ('{"sql": "ab"}', [Fault("/sql", "The value is shorter than 3 characters")]),
        (
            '{"sql": "abc", "options": {"deep": 1}}',
            [
                Fault("/options/deep", "Unexpected property"),
                Fault("/options/depth", "Field required"),
            ],
        ),
        (
            '{"sql": "abc", "ids": [1, "x"]}',
            [Fault("/ids/1", 'The value is not of type "integer"')],
        ),
        ('{"sql": "abc", "token": "hunter2"}', [Fault("/token", HIDDEN)]),
        ('{"sql": "abc", "auth": {"pin": "hunter2"}}', [Fault("/auth/pin", HIDDEN)]),
    ],
)
def test_faults_of_plain_input_have_pointers_too(raw: str, expected: list[Fault]) -> None:
    """R45: the same form for host tools, and a secret is not described."""
    found = faults(params_of_schema("t", SCHEMA), raw)

    assert sorted(found, key=lambda fault: fault.pointer) == expected


def test_plain_input_that_is_no_json_is_one_fault() -> None:
    """R45: also for host tools."""
    (fault,) = faults(params_of_schema("t", SCHEMA), "{hunter2")

    assert fault.pointer == ""
    assert "Invalid JSON" in fault.message
    assert "hunter2" not in fault.message


def login(
    user: str,
    password: SecretStr,
    token: Annotated[str, Secret(), Field(pattern="^t-[0-9]+$")] = "t-1",
) -> None: ...


def test_a_fault_of_a_secret_says_nothing() -> None:
    """Not even which rule it broke: a pattern or a length narrows a secret down."""
    found = faults(
        params_of_function("login", login), '{"user": 5, "password": 5, "token": "hunter2"}'
    )

    assert found == (
        Fault("/user", "Input should be a valid string"),
        Fault("/password", HIDDEN),
        Fault("/token", HIDDEN),
    )


class Account(BaseModel):
    user: str
    password: SecretStr
    limit: int = 0

    @field_validator("limit")
    @classmethod
    def check_limit(cls, limit: int) -> int:
        if limit < 0:
            raise ValueError("a limit is not negative")
        return limit

    @model_validator(mode="after")
    def check(self) -> "Account":
        if self.password.get_secret_value() == self.user:
            raise ValueError(f"{self.password.get_secret_value()} is no password")
        return self


def test_a_users_message_about_a_secret_is_not_repeated() -> None:
    """A validator of the whole object may quote the secret, so its words are kept back."""
    params = params_of_type("t", Account)

    assert faults(params, '{"user": "hunter2", "password": "hunter2"}') == (Fault("", HIDDEN),)


def test_a_users_message_about_another_field_is_told() -> None:
    """What cannot know the secret may speak."""
    params = params_of_type("t", Account)
    found = faults(params, '{"user": "a", "password": "b", "limit": -1}')

    assert found == (Fault("/limit", "Value error, a limit is not negative"),)


@pytest.mark.parametrize(
    "raw",
    [
        f'{{{SOUND}, "pet": {{"kind": "hunter2"}}}}',
        f'{{{SOUND}, "either": "hunter2"}}',
        '{"text": ["hunter2"], "inner": "hunter2", "many": "hunter2", "table": "hunter2"}',
    ],
)
def test_messages_do_not_repeat_the_input(raw: str) -> None:
    """A message goes to logs and to the model; what was sent stays out of it."""
    assert "hunter2" not in str(faults(PARAMS, raw))


def test_an_error_in_a_users_own_type_is_named_and_not_quoted() -> None:
    """A type that breaks while it checks a value is a fault, told by the kind of error only."""

    @dataclass
    class Broken:
        text: str

        def __post_init__(self) -> None:
            raise KeyError(self.text)

    params = params_of_type("t", Broken)
    with pytest.raises(KeyError) as caught:
        params.parse('{"text": "hunter2"}')

    assert params.faults(caught.value) == (
        Fault("", "The arguments could not be checked (KeyError)"),
    )


def test_pointers_escape_what_they_must() -> None:
    """RFC 6901: ~ is ~0 and / is ~1."""
    assert pointer_of(["a/b", "~", 0]) == "/a~1b/~0/0"
    assert pointer_of([]) == ""
