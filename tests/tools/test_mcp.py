"""MCP: its options, its secrets, its gate and its factory."""

import base64
import dataclasses
from typing import Any

import pytest

from tests.calls.runs import run
from toolcrib.errors import InvalidTool
from toolcrib.tools.mcp import (
    ApprovalFilter,
    McpCall,
    McpCallResult,
    McpConfig,
    McpResult,
    ToolFilter,
    mcp_gate,
    mcp_tool,
)
from toolcrib.tools.redaction import Scrubber

URL = "https://example.org/mcp"
TOKEN = "tok-8f3a91c2d4"


def config(**options: Any) -> McpConfig:
    fields: dict[str, Any] = {"server_label": "Library", "server_url": URL, **options}
    return McpConfig(**fields)


def test_the_factory_takes_the_servers_label() -> None:
    """H41: the label names the tool, in the letters that tools' names have."""
    tool = mcp_tool(config())

    assert (tool.kind, tool.name) == ("mcp", "library")
    assert mcp_tool(config(), name="books").name == "books"


def test_a_person_is_asked_unless_told_otherwise() -> None:
    """Facts 1.6: always is the default."""
    assert config().require_approval == "always"


@pytest.mark.parametrize(
    "places",
    [
        {"server_url": None},
        {"connector_id": "connector_gmail"},
        {"server_url": None, "connector_id": "c", "tunnel_id": "t"},
        {"connector_id": "c", "tunnel_id": "t"},
    ],
)
def test_exactly_one_place_is_named(places: dict[str, Any]) -> None:
    """Facts 1.6: an address, a connector or a tunnel."""
    with pytest.raises(InvalidTool, match="exactly one of server_url, connector_id and tunnel_id"):
        config(**places)


@pytest.mark.parametrize("label", ["", "1a", "a b", "ä", "a" * 65, None])
def test_a_label_has_letters_that_every_side_takes(label: Any) -> None:
    """H9: it becomes part of names."""
    with pytest.raises(InvalidTool, match="server_label"):
        config(server_label=label)


@pytest.mark.parametrize(
    "url",
    [
        "",
        "example.org",
        "ftp://example.org",
        "https://",
        "https:///path",
        "https://exa mple.org",
        "https://example.org/\n",
        "https://[::1",
        "http://example.org/mcp",
        f"https://user:{TOKEN}@example.org/",
        7,
    ],
)
def test_unsafe_addresses_are_refused_and_not_repeated(url: Any) -> None:
    """A token must not travel in the clear, nor appear in a message."""
    with pytest.raises(InvalidTool, match="server_url") as refused:
        config(server_url=url)
    assert TOKEN not in str(refused.value)


@pytest.mark.parametrize("url", ["http://localhost:8000/mcp", "http://127.0.0.1/", "http://[::1]/"])
def test_a_server_on_this_machine_needs_no_encryption(url: str) -> None:
    """Nobody is in between."""
    assert config(server_url=url).server_url == url


@pytest.mark.parametrize(
    "options",
    [
        {"authorization": f"{TOKEN}\n"},
        {"authorization": " "},
        {"authorization": [TOKEN]},
        {"headers": {"X-Key": f"{TOKEN}\r\nX-Other: 1"}},
        {"headers": {"X Key": TOKEN}},
        {"headers": {"X-Key": [TOKEN]}},
        {"headers": [("X-Key", TOKEN)]},
    ],
)
def test_unsound_credentials_are_refused_and_not_repeated(options: dict[str, Any]) -> None:
    """A line break would smuggle in another header; no message holds a secret."""
    with pytest.raises(InvalidTool, match=next(iter(options))) as refused:
        config(**options)
    assert TOKEN not in str(refused.value)


def test_no_credential_is_shown() -> None:
    """Neither the options nor the tool show them in a log; an address may hold one too."""
    made = config(
        server_url=f"{URL}?key={TOKEN}", authorization=TOKEN, headers={"X-Key": f"Bearer {TOKEN}"}
    )

    for shown in (
        repr(made),
        str(made),
        repr(mcp_tool(made)),
        repr(mcp_gate(mcp_tool(made), provider="openai")),
    ):
        assert TOKEN not in shown


def test_secrets_are_known_whole_and_in_parts() -> None:
    """A server may repeat a token without its scheme, or what stands in the address."""
    made = config(server_url=f"{URL}?k=query-secret&v=2", headers={"X-Key": f"Bearer {TOKEN}"})

    assert {f"Bearer {TOKEN}", TOKEN, "query-secret"} == set(made.secrets)
    assert "Bearer" not in made.secrets
    assert "2" not in made.secrets
    assert config().secrets == ()


@pytest.mark.parametrize(
    ("url", "secrets"),
    [
        (f"{URL}?k=a%2Fb%2Fc%2Fd%2Fe&v=2", {"a/b/c/d/e"}),
        (f"{URL}?query-secret", {"query-secret"}),
        (f"{URL}/s/0123456789abcdef/sse", {"0123456789abcdef"}),
        (f"{URL}/modelcontextprotocol/v2", set[str]()),
    ],
    ids=["escaped", "bare", "path", "words"],
)
def test_a_key_in_an_address_is_a_secret(url: str, secrets: set[str]) -> None:
    """Many services take the key in the query or in the path; words and versions are no keys."""
    assert set(config(server_url=url).secrets) == secrets


def test_secrets_are_hidden_as_others_spell_them() -> None:
    """Security 16: in JSON, in an address and in base64, quotes, slashes and letters of other
    languages look different.
    """
    secret = 'pass"wörd/1'
    scrubber = Scrubber([*config(authorization=secret).secrets])

    for spelt in (
        secret,
        'pass\\"w\\u00f6rd/1',
        'pass\\"wörd/1',
        "pass%22w%C3%B6rd%2F1",
        base64.b64encode(f"x:{secret}".encode()).decode(),
    ):
        assert spelt not in scrubber.scrub(f"the server said {spelt} and went away")


def test_a_password_of_basic_authentication_is_a_secret() -> None:
    """A server that decodes it may repeat it."""
    header = "Basic " + base64.b64encode(b"ann:correct-horse").decode()

    assert {"ann:correct-horse", "correct-horse"} < set(config(headers={"X": header}).secrets)


def test_headers_cannot_change_after_their_check() -> None:
    """H2: neither through the mapping that was given nor through the one that is kept."""
    given = {"X-Key": "a"}
    made = config(headers=given)
    given["X-Other"] = "b\n"

    assert dict(made.headers) == {"X-Key": "a"}
    with pytest.raises(TypeError):
        made.headers["X-Other"] = "b"  # pyright: ignore[reportIndexIssue]


@pytest.mark.parametrize(
    "options",
    [
        {"description": ""},
        {"allowed_tools": ()},
        {"allowed_tools": "find"},
        {"allowed_tools": ["find"]},
        {"require_approval": "sometimes"},
        {"require_approval": None},
        {"require_approval": {"never": {}}},
        {"defer_loading": "no"},
        {"tunnel_id": " "},
    ],
)
def test_unsound_options_are_refused(options: dict[str, Any]) -> None:
    """H2: when they are made, with the name of the option."""
    with pytest.raises(InvalidTool, match=next(iter(options))):
        config(**options)


def test_filters_must_pick_something() -> None:
    """H2: an empty filter could mean everything or nothing."""
    wrong: Any = {"tool_names": ["x"]}

    with pytest.raises(InvalidTool, match="picks nothing"):
        ToolFilter()
    with pytest.raises(InvalidTool, match="says nothing"):
        ApprovalFilter()
    with pytest.raises(InvalidTool, match="must be a ToolFilter"):
        ApprovalFilter(never=wrong)
    with pytest.raises(InvalidTool, match="read_only"):
        ToolFilter(read_only="yes")  # pyright: ignore[reportArgumentType]


@pytest.mark.parametrize("made", [config(), ToolFilter(("a",)), ApprovalFilter(ToolFilter(("a",)))])
def test_options_are_frozen_and_slotted(made: Any) -> None:
    """H2: options cannot change after their check."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        setattr(made, dataclasses.fields(made)[0].name, None)
    assert not hasattr(made, "__dict__")


async def test_the_gate_waits_for_a_yes_and_does_nothing() -> None:
    """R42: to run it is to say yes; without a yes it does not run."""
    asked = {"server": "Library", "tool": "find", "arguments": {"a": 1}}
    gate = mcp_gate(mcp_tool(config()), provider="openai")

    waiting = await run(gate, asked)
    passed = await run(
        mcp_gate(mcp_tool(config()), provider="openai", requires_approval=False), asked
    )

    assert (gate.name, waiting.outcome.status) == ("library", "waiting")
    assert passed.outcome.value == McpCall("Library", "find", {"a": 1})


def test_results_render_what_came_back() -> None:
    """H6: outputs and errors, in order."""
    result = McpResult(
        (McpCallResult("a", "1"), McpCallResult("b", "", "down")), error="not listed"
    )

    assert result.render() == "not listed\n1\ndown"
