"""The hand-written responses are what a server could send."""

from typing import Any

import pytest
from pydantic import TypeAdapter, ValidationError

from tests.adapters.openai.response_samples import fixture, fixture_names

# Real servers send both: a source that is a feed without an address, and types of tomorrow.
NOT_TYPED = {"web_search_many": ["ws_1", "zz_1"]}


def test_there_are_fixtures() -> None:
    """H49: the rule below would hold for an empty directory."""
    assert {"code_interpreter", "file_search", "web_search"} <= set(fixture_names())


@pytest.mark.parametrize("name", fixture_names())
def test_fixtures_are_realistic(name: str) -> None:
    """H49: each item passes the SDK's own types, but for those that are meant not to."""
    odd = [item["id"] for item in fixture(name) if not _is_typed(item)]

    assert odd == NOT_TYPED.get(name, [])


def _is_typed(item: dict[str, Any]) -> bool:
    from openai.types.responses import ResponseOutputItem

    adapter: TypeAdapter[Any] = TypeAdapter(ResponseOutputItem)
    try:
        adapter.validate_python(item)
    except ValidationError:
        return False
    return True
