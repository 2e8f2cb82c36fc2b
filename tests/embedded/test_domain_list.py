"""Which hosts a list of domains admits, however they are written."""

from __future__ import annotations

from typing import Any

import pytest

from toolcrib.embedded.domain_list import MAX_DOMAINS, DomainList

LIST = DomainList.of(["Example.com", "*.wild.example", "bücher.example", "trailing.example."])


@pytest.mark.parametrize(
    "host",
    [
        "example.com",
        "EXAMPLE.com",
        "example.com.",
        "a.wild.example",
        "a.b.WILD.example.",
        "xn--bcher-kva.example",
        "bücher.example",
        "trailing.example",
    ],
)
def test_an_admitted_host(host: str) -> None:
    """Case, a dot at the end and the spelling of an international name do not matter."""
    assert LIST.admits(host)


@pytest.mark.parametrize(
    "host",
    [
        "www.example.com",
        "example.com.evil.example",
        "notexample.com",
        "wild.example",
        "evilwild.example",
        "*.wild.example",
        "example.com:443",
        "user@example.com",
        "example.com/x",
        "example.com%2e.evil.example",
        "127.0.0.1",
        "127.1",
        "0x7f.1",
        "2130706433",
        "0x7f000001",
        "[::1]",
        "::1",
        "",
        ".",
        "..example.com",
        "example..com",
        "exa mple.com",
        "example.com\r\n",
        f"{'a' * 64}.wild.example",
    ],
)
def test_a_host_that_is_not_admitted(host: str) -> None:
    """A name alone is that name alone; an address is never admitted."""
    assert not LIST.admits(host)


@pytest.mark.parametrize(
    "entry",
    [
        *("https://example.com", "example.com/path", "example.com:443", "user@example.com"),
        *("127.0.0.1", "[::1]", "2130706433", "a.*.example", "*", "**.example", "*example.com"),
        *("", " ", "exa mple.com", None, 7, "-a.example", "a..example"),
    ],
)
def test_an_entry_that_is_no_domain(entry: Any) -> None:
    """A list that cannot be kept is refused with the entry."""
    with pytest.raises(ValueError, match="is no domain"):
        DomainList.of(["good.example", entry])


def test_a_list_has_entries_but_not_too_many() -> None:
    """An empty list would be a network without a way out, and a long one a mistake."""
    for entries in ([], ["a.example"] * (MAX_DOMAINS + 1)):
        with pytest.raises(ValueError, match="give 1 to"):
            DomainList.of(entries)
