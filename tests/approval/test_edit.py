"""Edited arguments: valid, and with every secret where it was."""

from dataclasses import dataclass, field
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.approval.samples import request
from toolcrib.approval.decision import ApprovalRequest
from toolcrib.approval.edit import check_edit, restore_secrets
from toolcrib.errors import InvalidDecision
from toolcrib.tools.params import params_of_type
from toolcrib.tools.redaction import redactor_of
from toolcrib.tools.secrets import SECRET, Secret


@dataclass(frozen=True, slots=True)
class Account:
    name: str
    token: Annotated[str, Secret()] = ""


@dataclass(frozen=True, slots=True)
class Login:
    user: str
    token: Annotated[str, Secret()]
    pin: Annotated[int | None, Secret()] = None
    account: Account | None = None
    others: list[Account] = field(default_factory=list[Account])
    labels: dict[str, str] = field(default_factory=dict[str, str])


SCHEMA = params_of_type("login", Login).schema
REAL: dict[str, Any] = {
    "user": "ada",
    "token": "t-0",
    "account": {"name": "main", "token": "t-1"},
    "others": [{"name": "a", "token": "t-a"}, {"name": "b", "token": "t-b"}],
    "labels": {"a/b": "x", "c~d": "y"},
}


def asked(arguments: dict[str, Any] | None = None) -> ApprovalRequest:
    """A request as an approver sees it."""
    redactor = redactor_of(SCHEMA)
    assert redactor is not None
    return request(redactor.redact(REAL if arguments is None else arguments), parameters=SCHEMA)


def edit(**changes: Any) -> dict[str, Any]:
    """What was shown, changed."""
    return {**asked().arguments, **changes}


def test_the_secrets_are_hidden_from_whoever_edits() -> None:
    """The tests below edit a view without secrets, as approvers do."""
    assert asked().arguments == {
        "user": "ada",
        "token": SECRET,
        "account": {"name": "main", "token": SECRET},
        "others": [{"name": "a", "token": SECRET}, {"name": "b", "token": SECRET}],
        "labels": {"a/b": "x", "c~d": "y"},
    }


def without(*names: str) -> dict[str, Any]:
    return {name: value for name, value in asked().arguments.items() if name not in names}


@pytest.mark.parametrize(
    ("edited", "runs_with"),
    [
        (edit(), REAL),
        (edit(user="bob"), {**REAL, "user": "bob"}),
        (
            edit(account={"name": "spare", "token": SECRET}),
            {**REAL, "account": {"name": "spare", "token": "t-1"}},
        ),
        (edit(labels={"a/b": "z"}), {**REAL, "labels": {"a/b": "z"}}),
        (edit(account={"name": "main"}), {**REAL, "account": {"name": "main"}}),
        (without("others", "account", "labels"), {"user": "ada", "token": "t-0"}),
    ],
)
def test_what_is_not_secret_may_be_edited(
    edited: dict[str, Any], runs_with: dict[str, Any]
) -> None:
    """An edit changes or leaves out what it may; the real secrets are put back into the rest."""
    check_edit(asked(), edited)

    assert restore_secrets(edited, REAL) == runs_with


@pytest.mark.parametrize(
    "edited",
    [
        edit(token="mine"),
        edit(token=None),
        edit(token=["[secret]"]),
        edit(pin=1234),
        edit(user=SECRET),
        edit(account=SECRET),
        edit(account={"name": SECRET, "token": SECRET}),
        edit(account={"name": "main", "token": "mine"}),
        edit(labels={"new": SECRET}),
    ],
    ids=str,
)
def test_a_secret_stays_where_it_is(edited: dict[str, Any]) -> None:
    """An edit can neither replace a secret, nor move one to where it would be shown, nor add one:
    what is typed into an edit is written down.
    """
    with pytest.raises(InvalidDecision, match="secret") as refused:
        check_edit(asked(), edited)
    assert "mine" not in str(refused.value)


@pytest.mark.parametrize(
    "others",
    [
        [],
        [{"name": "b", "token": SECRET}],
        [{"name": "b", "token": SECRET}, {"name": "a", "token": SECRET}],
        [{"name": "a", "token": SECRET}],
        [{"name": "x", "token": SECRET}, {"name": "b", "token": SECRET}],
        [*asked().arguments["others"], {"name": "c", "token": SECRET}],
        [*asked().arguments["others"], {"name": "c", "token": "mine"}],
    ],
    ids=str,
)
def test_a_list_with_secrets_stays_as_it_is(others: list[Any]) -> None:
    """In a list only the position tells secrets apart: without the first entry, the second would
    run with the first one's secret.
    """
    with pytest.raises(InvalidDecision, match="a list that holds one"):
        check_edit(asked(), edit(others=others))


def test_an_optional_secret_cannot_be_typed_in() -> None:
    """A secret that the call did not have would be written down with the edit."""
    shown = asked({"user": "ada", "token": "t-0"})

    with pytest.raises(InvalidDecision, match="neither change nor add a secret"):
        check_edit(shown, {"user": "ada", "token": SECRET, "pin": 987654})


@pytest.mark.parametrize(
    ("edited", "where"),
    [
        (edit(user=1), "/user"),
        (edit(user=None), "/user"),
        (edit(unknown=1), "unknown"),
        ({"token": SECRET}, "user"),
        (edit(labels={"a/b": 1}), "/labels/a~1b"),
    ],
    ids=str,
)
def test_an_edit_must_fit_the_schema(edited: dict[str, Any], where: str) -> None:
    """Every fault is named by its place; the tool would not take such arguments."""
    with pytest.raises(InvalidDecision, match=r"'write_file' are not valid") as refused:
        check_edit(asked(), edited)
    assert where in str(refused.value)


def test_a_kept_secret_need_not_fit_its_own_schema() -> None:
    """The mark in a secret's place is a text, whatever the secret is."""
    shown = asked({"user": "ada", "token": "t-0", "pin": 4711})
    edited = {"user": "bob", "token": SECRET, "pin": SECRET}

    check_edit(shown, edited)

    assert restore_secrets(edited, {"user": "ada", "token": "t-0", "pin": 4711})["pin"] == 4711


@pytest.mark.parametrize("edited", [{"user": object()}, {"user": float("nan")}])
def test_an_edit_that_is_not_json_is_refused(edited: dict[str, Any]) -> None:
    """Nothing that could not have come from a model runs."""
    schema = {"type": "object", "properties": {"user": {"type": "number"}}}

    with pytest.raises(InvalidDecision, match="not valid"):
        check_edit(request({"user": 1}, parameters=schema), edited)


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just(SECRET),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=8,
)


@given(st.dictionaries(st.sampled_from([*REAL, "pin"]), json_values))
def test_no_edit_gets_hold_of_a_secret(changes: dict[str, Any]) -> None:
    """Whatever is edited, what runs has each secret in its own place or not at all."""
    edited = edit(**changes)
    try:
        check_edit(asked(), edited)
    except InvalidDecision:
        return
    runs_with = restore_secrets(edited, REAL)

    redactor = redactor_of(SCHEMA)
    assert redactor is not None
    assert redactor.redact(runs_with) == edited
    assert runs_with["token"] == "t-0"
    assert runs_with["others"] == REAL["others"]
