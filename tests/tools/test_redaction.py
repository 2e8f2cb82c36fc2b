"""Secrets: found in the schema, hidden in arguments, scrubbed from everything else."""

from __future__ import annotations

import copy
import json
from dataclasses import dataclass, field
from typing import Annotated, Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, SecretBytes, SecretStr

from toolcrib.tools.params import params_of_function, params_of_type
from toolcrib.tools.redaction import Redactor, Scrubber, redactor_of
from toolcrib.tools.secrets import SECRET, Secret, property_names, shape_of


@dataclass
class Account:
    user: str
    token: Annotated[str, Secret()]


class Login(BaseModel):
    user: str
    password: SecretStr


@dataclass
class Tree:
    name: str
    key: Annotated[str, Secret()]
    children: list[Tree] = field(default_factory=list["Tree"])


@dataclass
class Everything:
    plain: str
    account: Account
    logins: list[Login]
    by_name: dict[str, Account]
    pair: tuple[str, Annotated[str, Secret()]]
    either: int | Account
    tree: Tree | None = None
    pin: Annotated[int, Secret] = 0
    whole: Annotated[dict[str, Any], Secret()] = field(default_factory=dict[str, Any])


def redactor(schema: dict[str, Any]) -> Redactor:
    found = redactor_of(schema)
    assert found is not None
    return found


def redactor_for(params_type: Any) -> Redactor:
    return redactor(params_of_type("t", params_type).schema)


def test_a_marked_field_is_write_only_in_the_schema() -> None:
    """The mark becomes `writeOnly`, which is how a host tool marks a secret too."""
    properties = params_of_type("t", Account).schema["properties"]

    assert properties["token"] == {"type": "string", "writeOnly": True}
    assert "writeOnly" not in properties["user"]


def test_the_mark_works_without_being_called() -> None:
    """`Annotated[int, Secret]` is a common slip, and must not leave a secret open."""
    assert params_of_type("t", Everything).schema["properties"]["pin"]["writeOnly"] is True


def test_the_default_of_a_secret_is_not_shown() -> None:
    """A default key would otherwise be sent to the provider with every request."""

    def call(token: Annotated[str, Secret()] = "hunter2", extra: SecretStr | None = None) -> None:
        pass

    params = params_of_function("call", call)

    assert "hunter2" not in json.dumps(params.schema)
    assert params.parse("{}")["token"] == "hunter2"


@pytest.mark.parametrize("secret_type", [SecretStr, SecretBytes, Annotated[str, Secret()]])
def test_every_kind_of_secret_is_hidden(secret_type: Any) -> None:
    """Pydantic's own secret types and the mark are one mechanism."""

    def call(token: str) -> None: ...

    call.__annotations__["token"] = secret_type
    hidden = redactor(params_of_function("call", call).schema).redact({"token": "hunter2"})

    assert hidden == {"token": SECRET}


@pytest.mark.parametrize(
    "mark", [{"writeOnly": True}, {"format": "password"}, {"format": "password", "type": "string"}]
)
def test_a_host_tool_marks_secrets_in_its_schema(mark: dict[str, Any]) -> None:
    """`writeOnly: true` or `format: password`."""
    schema = {"type": "object", "properties": {"a": {"type": "string"}, "b": mark}}

    assert redactor(schema).redact({"a": "open", "b": "hunter2"}) == {"a": "open", "b": SECRET}


def test_without_a_secret_there_is_no_redactor() -> None:
    """Tools without secrets pay nothing."""
    assert redactor_of({"type": "object", "properties": {"a": {"type": "string"}}}) is None
    assert redactor_of({"type": "object", "properties": {"password": {"type": "string"}}}) is None
    assert redactor_of({"type": "object", "properties": {"a": {"writeOnly": False}}}) is None


def test_secrets_are_hidden_wherever_they_are() -> None:
    """In objects, lists, maps, tuples, unions and types that contain themselves."""
    account = {"user": "u", "token": "s1"}
    arguments = {
        "plain": "open",
        "account": account,
        "logins": [{"user": "u", "password": "s2"}],
        "by_name": {"x": account},
        "pair": ["open", "s3"],
        "either": account,
        "tree": {"name": "n", "key": "s4", "children": [{"name": "m", "key": "s5"}]},
        "pin": 1234,
        "whole": {"a": {"b": "s6"}},
    }

    shown = {"user": "u", "token": SECRET}
    assert redactor_for(Everything).redact(arguments) == {
        "plain": "open",
        "account": shown,
        "logins": [{"user": "u", "password": SECRET}],
        "by_name": {"x": shown},
        "pair": ["open", SECRET],
        "either": shown,
        "tree": {"name": "n", "key": SECRET, "children": [{"name": "m", "key": SECRET}]},
        "pin": SECRET,
        "whole": SECRET,
    }


def test_a_secret_that_is_repeated_in_the_open_is_hidden_there_too() -> None:
    """An address with the password in it gives the password away."""
    arguments = {
        "plain": "https://u:hunter2@host",
        "account": {"user": "hunter2", "token": "hunter2"},
        "by_name": {"hunter2": {"user": "u", "token": "other"}},
    }

    assert redactor_for(Everything).redact(arguments) == {
        "plain": f"https://u:{SECRET}@host",
        "account": {"user": SECRET, "token": SECRET},
        "by_name": {SECRET: {"user": "u", "token": SECRET}},
    }


def test_names_of_arguments_stay_readable() -> None:
    """A secret that is spelt like an argument's name does not make the record unreadable."""
    assert redactor_for(Account).redact({"user": "u", "token": "user"}) == {
        "user": "u",
        "token": SECRET,
    }


def test_redacting_does_not_change_the_arguments() -> None:
    """The handler still needs them."""
    arguments = {"user": "u", "token": "s"}
    redactor_for(Account).redact(arguments)

    assert arguments == {"user": "u", "token": "s"}


def test_null_is_not_a_secret() -> None:
    """That no secret was given may be known."""

    def call(token: SecretStr | None = None) -> None: ...

    assert redactor(params_of_function("call", call).schema).redact({"token": None}) == {
        "token": None
    }


@pytest.mark.parametrize(
    ("arguments", "shown"),
    [
        ("hunter2", SECRET),
        (["hunter2"], SECRET),
        ({"account": "hunter2"}, {"account": SECRET}),
        ({"account": ["hunter2"]}, {"account": SECRET}),
        ({"logins": {"password": "hunter2"}}, {"logins": SECRET}),
        ({"account": {"tokn": "hunter2"}}, {"account": {"tokn": SECRET}}),
        ({"account": {"token": {"value": "hunter2"}}}, {"account": {"token": SECRET}}),
    ],
)
def test_arguments_of_the_wrong_shape_show_less(arguments: Any, shown: Any) -> None:
    """A secret in the wrong place, or under a misspelt key, is hidden all the same."""
    assert redactor_for(Everything).redact(arguments) == shown


def test_arguments_that_cannot_be_read_are_hidden_as_a_whole() -> None:
    """Broken JSON may hold a secret anywhere."""
    found = redactor_for(Account)

    assert found.redact_json('{"token": "hunter2"') == SECRET
    assert found.redact_json(b"\xff") == SECRET
    assert found.redact_json('{"user": "u", "token": "x"}') == {"user": "u", "token": SECRET}


SCHEMAS: dict[str, dict[str, Any]] = {
    "ref": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/S"}},
        "$defs": {"S": {"type": "string", "writeOnly": True}},
    },
    "mark beside ref": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/S", "writeOnly": True}},
        "$defs": {"S": {"type": "string"}},
    },
    "escaped ref": {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/x~1y~0z"}},
        "$defs": {"x/y~z": {"writeOnly": True}},
    },
    "ref into a list": {
        "type": "object",
        "properties": {"a": {"$ref": "#/allOf/0/properties/b"}},
        "allOf": [{"properties": {"b": {"writeOnly": True}}}],
    },
    "anyOf": {"type": "object", "anyOf": [{"properties": {"a": {"writeOnly": True}}}, {}]},
    "oneOf": {"type": "object", "properties": {"a": {"oneOf": [{"format": "password"}, {}]}}},
    "allOf": {"type": "object", "allOf": [{"properties": {"a": {"writeOnly": True}}}]},
    "then": {"type": "object", "if": {}, "then": {"properties": {"a": {"writeOnly": True}}}},
    "else": {"type": "object", "if": {}, "else": {"properties": {"a": {"writeOnly": True}}}},
    "dependentSchemas": {
        "type": "object",
        "dependentSchemas": {"b": {"properties": {"a": {"writeOnly": True}}}},
    },
    "patternProperties": {"type": "object", "patternProperties": {"^a": {"writeOnly": True}}},
    "pattern over property": {
        "type": "object",
        "properties": {"a": {"type": "string"}},
        "patternProperties": {"^a": {"writeOnly": True}},
    },
    "additionalProperties": {"type": "object", "additionalProperties": {"writeOnly": True}},
    "unevaluatedProperties": {"type": "object", "unevaluatedProperties": {"writeOnly": True}},
    "branch with map": {
        "type": "object",
        "anyOf": [
            {"properties": {"a": {"type": "string"}}},
            {"additionalProperties": {"writeOnly": True}},
        ],
    },
    "everything": {"type": "object", "writeOnly": True},
}


@pytest.mark.parametrize("schema", SCHEMAS.values(), ids=SCHEMAS.keys())
def test_a_mark_is_found_wherever_a_schema_can_put_it(schema: dict[str, Any]) -> None:
    """When one branch calls a place secret, it is secret."""
    assert "hunter2" not in json.dumps(redactor(schema).redact({"a": "hunter2"}))


@pytest.mark.parametrize(
    "elements",
    [
        {"items": {"writeOnly": True}},
        {"prefixItems": [{"writeOnly": True}]},
        {"prefixItems": [{"type": "string"}], "anyOf": [{"items": {"writeOnly": True}}]},
        {"contains": {"writeOnly": True}},
        {"unevaluatedItems": {"writeOnly": True}},
    ],
)
def test_a_mark_is_found_in_lists(elements: dict[str, Any]) -> None:
    """For every way to describe the elements of a list."""
    schema = {"type": "object", "properties": {"a": {"type": "array", **elements}}}

    assert redactor(schema).redact({"a": ["hunter2"]}) == {"a": [SECRET]}


def test_a_schema_of_mere_references_comes_to_an_end() -> None:
    """References in a circle do not hang the reader."""
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/A"}, "b": {"writeOnly": True}},
        "$defs": {"A": {"$ref": "#/$defs/B"}, "B": {"$ref": "#/$defs/A"}},
    }

    assert redactor(schema).redact({"a": "open", "b": "s"}) == {"a": "open", "b": SECRET}


def scrub(arguments: dict[str, Any], data: Any) -> Any:
    return redactor_for(Everything).scrubber(arguments).scrub(data)


def test_a_secret_is_scrubbed_from_results_and_messages() -> None:
    """Whole or as part of a text, in values and in keys, however deep."""
    arguments = {"account": {"user": "u", "token": "hunter2"}}
    data = {"log": ["login with hunter2 failed", {"hunter2": 1}], "user": "u", "n": 5, "ok": True}

    assert scrub(arguments, data) == {
        "log": [f"login with {SECRET} failed", {SECRET: 1}],
        "user": "u",
        "n": 5,
        "ok": True,
    }


def test_escapes_do_not_hide_a_secret() -> None:
    """Scrubbing works on the data, not on its JSON text."""
    secret = 'a"b\\c\nd/é'
    arguments = {"account": {"user": "u", "token": secret}}

    assert scrub(arguments, [f"<{secret}>"]) == [f"<{SECRET}>"]


def test_a_longer_secret_goes_before_one_that_it_contains() -> None:
    """No tail of a secret is left over."""
    arguments = {"pair": ["", "hunter"], "account": {"token": "hunter2000"}}

    assert scrub(arguments, "key hunter2000 and hunter") == f"key {SECRET} and {SECRET}"


def test_secret_numbers_are_scrubbed() -> None:
    """Equal numbers, and their digits in a text."""
    arguments = {"pin": 123456}

    assert scrub(arguments, [123456, "pin=123456", 5]) == [SECRET, f"pin={SECRET}", 5]


def test_a_short_secret_is_only_replaced_as_a_whole() -> None:
    """Cut out of longer texts, a short secret would take half the language with it."""
    arguments = {"account": {"token": "abc"}}

    assert scrub(arguments, ["abc", "abcdef"]) == [SECRET, "abcdef"]


def test_true_false_null_and_the_empty_text_are_not_scrubbed() -> None:
    """They are in every result and tell nothing."""
    arguments = {"whole": {"a": True, "b": None, "c": "", "d": ["hunter2"]}}

    assert scrub(arguments, [True, None, "", 1, "hunter2"]) == [True, None, "", 1, SECRET]


def test_unreadable_arguments_are_scrubbed_as_a_whole() -> None:
    """What could not be parsed is a secret as it stands."""
    scrubber = Scrubber(redactor_for(Account).secrets_json('{"token": "hunter2'))

    assert scrubber.scrub('cannot parse {"token": "hunter2') == f"cannot parse {SECRET}"


texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
secrets = st.text(st.characters(exclude_categories=["Cs"]), min_size=4, max_size=12)
accounts = st.fixed_dictionaries({"user": texts, "token": secrets})
trees: st.SearchStrategy[Any] = st.recursive(
    st.fixed_dictionaries({"name": texts, "key": secrets}),
    lambda inner: st.fixed_dictionaries(
        {"name": texts, "key": secrets, "children": st.lists(inner, max_size=3)}
    ),
    max_leaves=6,
)
calls = st.fixed_dictionaries(
    {
        "plain": texts,
        "account": accounts,
        "logins": st.lists(st.fixed_dictionaries({"user": texts, "password": secrets})),
        "by_name": st.dictionaries(texts, accounts),
        "pair": st.tuples(texts, secrets).map(list),
        "either": st.integers() | accounts,
        "tree": st.none() | trees,
    }
)
REDACTOR = redactor_for(Everything)
SECRET_KEYS = {"token", "password", "key"}
ARGUMENT_NAMES = property_names(shape_of(params_of_type("t", Everything).schema))


def secrets_in(value: Any, key: Any = None) -> list[str]:
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value).items()
        return [found for name, member in members for found in secrets_in(member, name)]
    if isinstance(value, list):
        second = cast("list[Any]", value)[1:] if key == "pair" else []
        return second or [
            found for member in cast("list[Any]", value) for found in secrets_in(member)
        ]
    return [value] if key in SECRET_KEYS else []


def texts_in(value: Any) -> list[str]:
    """Every text in a value, keys included, but for the names of arguments."""
    if isinstance(value, dict):
        members = cast("dict[str, Any]", value)
        own = [key for key in members if key not in ARGUMENT_NAMES]
        return own + [text for member in members.values() for text in texts_in(member)]
    if isinstance(value, list):
        return [text for member in cast("list[Any]", value) for text in texts_in(member)]
    return [value] if isinstance(value, str) else []


def survivors(hidden: list[str], shown: Any) -> list[str]:
    # What stands in a secret's place may contain a short secret by accident.
    left = [piece for text in texts_in(shown) for piece in text.split(SECRET)]
    return [secret for secret in hidden if any(secret in text for text in left)]


@given(calls)
def test_no_secret_survives_redaction(arguments: dict[str, Any]) -> None:
    """No secret is left anywhere in the redacted arguments, and the arguments stay as they are."""
    before = copy.deepcopy(arguments)
    redacted = REDACTOR.redact(arguments)

    assert survivors(secrets_in(arguments), redacted) == []
    assert arguments == before


@given(calls, st.recursive(texts, lambda inner: st.lists(inner) | st.dictionaries(texts, inner)))
def test_no_secret_survives_scrubbing(arguments: dict[str, Any], noise: Any) -> None:
    """Wherever a result repeats a secret, it is gone afterwards."""
    hidden = secrets_in(arguments)
    result = {"noise": noise, "echo": arguments, "message": " ".join(hidden)}

    assert survivors(hidden, REDACTOR.scrubber(arguments).scrub(result)) == []
