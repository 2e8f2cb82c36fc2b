"""`extra`: wire fields that are newer than this package, on hosted and provider tools."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    DomainSecret,
    NetworkPolicy,
)
from toolcrib.tools.extra import secrets_of_extra
from toolcrib.tools.prepared_tool import prepare
from toolcrib.tools.shell import ContainerShellConfig
from toolcrib.tools.web_search import web_search_tool

SECRET = "value-0123456789"


def test_extra_is_part_of_a_tools_identity() -> None:
    """A decision about a tool is bound to its extra fields, which people can read."""
    plain, other = prepare(web_search_tool()), prepare(web_search_tool(extra={"mode": "deep"}))

    assert plain.ref.digest != other.ref.digest
    assert other.identity.parts["extra.mode"] == "deep"
    assert prepare(web_search_tool(extra={"mode": "deep"})).ref.digest == other.ref.digest


def test_extra_is_copied() -> None:
    """What was checked is what is sent, whatever becomes of the mapping."""
    inner: dict[str, Any] = {"a": 1}
    tool = web_search_tool(extra={"limits": inner})
    inner["a"] = 2

    assert tool.extra == {"limits": {"a": 1}}


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ([("mode", 1)], "must be a mapping"),
        ({"type": "shell"}, "other than its type"),
        ({"kind": "shell"}, "other than its type"),
        ({1: "a"}, "other than its type"),
        ({"": "a"}, "other than its type"),
        ({"when": object()}, "plain JSON"),
        ({"size": float("nan")}, "plain JSON"),
    ],
)
def test_what_is_no_wire_field_is_refused(extra: Any, said: str) -> None:
    """The error comes when the tool is made, and says what to write."""
    with pytest.raises(InvalidTool, match=said):
        web_search_tool(extra=extra)


def test_secrets_in_extra_are_known_and_not_shown() -> None:
    """Fields with names like credentials are hidden in identities and in the tool's own text."""
    tool = web_search_tool(extra={"auth": {"header": SECRET}, "list": [{"api_key": SECRET}]})

    assert list(secrets_of_extra(tool.extra)) == [SECRET, SECRET]
    assert SECRET not in repr(tool)
    assert SECRET not in str(prepare(tool).identity.parts)


def test_plain_words_in_extra_are_no_secrets() -> None:
    """Hiding them would take common words out of every record."""
    extra = {"return_token_budget": "default", "key": "on", "keywords": "all of them"}

    assert list(secrets_of_extra(web_search_tool(extra=extra).extra)) == []


def test_the_secrets_of_a_domain_are_typed_and_hidden() -> None:
    """Finding 6: `domain_secrets` has a type, and its values are in no text."""
    policy = NetworkPolicy(("a.com",), (DomainSecret("api.a.com", "K", SECRET),))
    config = CodeInterpreterConfig(AutoContainer(network_policy=policy))

    assert config.secrets == (SECRET,)
    assert ContainerShellConfig(AutoContainer(network_policy=policy)).secrets == (SECRET,)
    assert SECRET not in repr(config)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (
            lambda: NetworkPolicy(("a.com",), (DomainSecret("b.com", "K", SECRET),)),
            "does not allow",
        ),
        (lambda: NetworkPolicy((), (DomainSecret("b.com", "K", SECRET),)), "does not allow"),
        (lambda: NetworkPolicy(("a.com",), [DomainSecret("a.com", "K", SECRET)]), "a tuple of"),  # pyright: ignore[reportArgumentType]
        (lambda: NetworkPolicy(("a.com",), ("K",)), "a tuple of"),  # pyright: ignore[reportArgumentType]
        (lambda: DomainSecret("a.com", "K", " "), "not blank"),
        (lambda: DomainSecret("a.com", "", SECRET), "must be None or a text"),
        (lambda: DomainSecret("https://a.com", "K", SECRET), "not a domain"),
    ],
)
def test_a_wrong_domain_secret_is_refused_without_showing_it(make: Any, said: str) -> None:
    """No error repeats the value of a secret."""
    with pytest.raises(InvalidTool, match=said) as caught:
        make()
    assert SECRET not in str(caught.value)


def test_results_can_be_read_like_a_dict() -> None:
    """Document C's hook reads its result with `get`; what is no field is missing."""
    from toolcrib.tools.code_interpreter import CodeInterpreterResult

    result = CodeInterpreterResult(code="1", stdout="one")

    assert (result.get("stdout"), result.get("output_text"), result.get("x", 3)) == ("one", None, 3)
    assert result["code"] == "1"
    assert dict(result)["stdout"] == "one"
    assert "stdout" in result
    assert "render" not in result
    with pytest.raises(KeyError, match="output_text"):
        result["output_text"]
