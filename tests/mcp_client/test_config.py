"""Where servers are, and what of that may be shown."""

from __future__ import annotations

from toolcrib.mcp_client import HttpServerConfig, MountTerms, StdioServerConfig
from toolcrib.mcp_client.config import ConnectionTiming, ServerAddress, endpoint_of, printable_line

TERMS = MountTerms(prefix="")


def test_an_address_and_its_headers_are_filled_in_and_secret() -> None:
    """Variables come from the environment, and what they held is known not to be shown."""
    config = HttpServerConfig(
        name="web",
        terms=TERMS,
        url="https://example.org/${PLACE}",
        headers={"Authorization": "Bearer ${TOKEN}"},
    )
    reach = endpoint_of(config, {"PLACE": "key-0123456789abcdef", "TOKEN": "tok-12345678"})

    assert isinstance(reach, ServerAddress)
    assert reach.url == "https://example.org/key-0123456789abcdef"
    assert reach.headers["Authorization"] == "Bearer tok-12345678"
    assert "tok-12345678" not in repr(reach)
    shown = printable_line("tok-12345678 at key-0123456789abcdef", reach.scrubber)
    assert shown == "[secret] at [secret]"


def test_only_what_is_secret_is_hidden() -> None:
    """A credential by its name, and what a variable brings; a folder or a mode is neither, or a
    server of files could not name its files.
    """
    env = {"API_KEY": "k-literal-1", "ROOT": "${ROOT}", "MODE": "read-write", "X": "${ANY}"}
    config = StdioServerConfig(name="files", terms=TERMS, command="files", env=env)
    reach = endpoint_of(config, {"ROOT": "/data/projects", "ANY": "filled-in-1"})
    said = "k-literal-1 /data/projects read-write filled-in-1"

    assert printable_line(said, reach.scrubber) == "[secret] /data/projects read-write [secret]"
    assert printable_line(said, endpoint_of(config, None).scrubber).startswith("[secret] /data")


def test_a_clients_own_words_are_left_as_they_are() -> None:
    """Without an environment nothing is filled in."""
    config = HttpServerConfig(
        name="web", terms=TERMS, url="https://example.org/", headers={"X": "${TOKEN}"}
    )
    reach = endpoint_of(config, None)

    assert isinstance(reach, ServerAddress)
    assert reach.headers["X"] == "${TOKEN}"


def test_what_is_shown_is_one_short_line() -> None:
    """Nothing in a reason can steer a terminal or fill a screen."""
    assert printable_line("a\nb\x1b[2J" + "c" * 1_000) == ("a b?[2J" + "c" * 1_000)[:497] + "..."


def test_pauses_grow_up_to_a_limit() -> None:
    """A server that stays away is asked for less and less often."""
    timing = ConnectionTiming(first_pause=1, max_pause=10)

    assert [timing.pause(failures) for failures in (0, 1, 2, 3, 4, 5, 10_000)] == [
        *(1, 1, 2, 4, 8, 10, 10)
    ]
