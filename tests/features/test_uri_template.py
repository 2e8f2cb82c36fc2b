"""URI templates: which URIs they match, and which values they never let through."""

from __future__ import annotations

import time

import pytest

from toolcrib.errors import InvalidTool
from toolcrib.features.uri_template import UriTemplate


@pytest.mark.parametrize(
    ("template", "uri", "values"),
    [
        ("stock://all", "stock://all", {}),
        ("stock://{item}", "stock://saw", {"item": "saw"}),
        ("stock://{item}", "stock://hand%20saw", {"item": "hand saw"}),
        ("stock://{shelf}/{item}", "stock://a/saw", {"shelf": "a", "item": "saw"}),
        ("file:///{+path}", "file:///a/b.txt", {"path": "a/b.txt"}),
        ("find://{topic}{?page,size}", "find://tea?page=2", {"topic": "tea", "page": "2"}),
        ("find://{topic}{?page}", "find://tea", {"topic": "tea"}),
    ],
)
def test_a_uri_of_the_template_gives_its_variables(
    template: str, uri: str, values: dict[str, str]
) -> None:
    """One segment, a path, or parts of the query, decoded."""
    assert UriTemplate(template).match(uri) == values


@pytest.mark.parametrize(
    ("template", "uri"),
    [
        ("stock://{item}", "stock://"),
        ("stock://{item}", "stock://a/b"),
        ("stock://{item}", "stock://a%2Fb"),
        ("stock://{item}", "stock://.."),
        ("stock://{item}", "stock://%2e%2e"),
        ("stock://{item}", "stock://a%00"),
        ("file:///{+path}", "file:///a/../../etc/passwd"),
        ("file:///{+path}", "file:///a/%2e%2e/secret"),
        ("file:///{+path}", "file:///a%5C..%5Csecret"),
        ("stock://all", "stock://all?x=1"),
    ],
)
def test_a_value_never_leads_out_of_its_place(template: str, uri: str) -> None:
    """No slash in one segment and no `..` anywhere, however it is written."""
    assert UriTemplate(template).match(uri) is None


@pytest.mark.parametrize(
    "template",
    ["item", "stock://{item", "stock://{a}{b}", "stock://{a}/{a}", "stock://{;a}", "s://a b", 5],
)
def test_a_template_that_cannot_be_matched_is_refused(template: str) -> None:
    """At its declaration, with what is wrong."""
    with pytest.raises(InvalidTool):
        UriTemplate(template)


def test_a_long_uri_takes_no_time() -> None:
    """Nothing is tried twice, so no URI keeps the server busy."""
    template = UriTemplate("x://{a}-{b}-{c}-{d}-end")
    started = time.perf_counter()
    assert template.match("x://" + "-" * 8_000) is None
    assert time.perf_counter() - started < 1
