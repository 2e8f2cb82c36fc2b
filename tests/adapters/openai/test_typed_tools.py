"""The check of requests against the SDK's types is itself sound."""

import pytest

from tests.adapters.openai.typed_tools import KNOWN_UNTYPED, untyped_fields

BLOCKED = {"type": "web_search", "filters": {"blocked_domains": ["example.org"]}}


def test_unknown_fields_are_found_at_any_depth() -> None:
    """H47: the SDK forwards whatever it is given, so the check must not."""
    assert untyped_fields({"type": "web_search", "bogus": 1}) == ["web_search: bogus"]
    assert untyped_fields({"type": "web_search", "filters": {"bogus": 1}}) == [
        "web_search: filters.bogus"
    ]


def test_missing_and_wrong_fields_are_found() -> None:
    """H47: a container is required, and there is no object form with an id."""
    assert untyped_fields({"type": "code_interpreter"}) == ["code_interpreter: container"]
    assert untyped_fields({"type": "code_interpreter", "container": {"id": "cntr_1"}})


def test_an_unknown_type_is_no_tool() -> None:
    """H47: a misspelt type must not pass as typed."""
    with pytest.raises(LookupError, match="web_serch"):
        untyped_fields({"type": "web_serch"})


def test_the_sdk_still_does_not_type_the_known_exceptions() -> None:
    """P16: when this fails the SDK has caught up: take the field off the list."""
    assert untyped_fields(BLOCKED) == list(KNOWN_UNTYPED)
