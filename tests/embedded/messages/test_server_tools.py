"""Server tools of the Messages API: their blocks, their limits and their errors."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import anthropic
import pytest

from tests.embedded.messages.anthropic_provider import (
    ADD,
    BASH,
    CODE,
    FETCH,
    PYTHON,
    SEARCH,
    ask,
    calls,
    events,
    only,
    provided,
    results,
    site,
)
from tests.embedded.tools.hosted_calls import Clock
from tests.mcp_client.mounted_servers import web_peer
from toolcrib.embedded import BackendRequest, ProposedCall
from toolcrib.embedded.messages.loop import MAX_STEPS

HOURS = "https://shop.example/hours.html"
BLOG = "https://shop.example/blog/hours.html"


async def test_a_search_is_cited_and_goes_on_from_its_blocks(tmp_path: Path) -> None:
    """A search has its blocks, its count and its citations; sent back, the blocks give the backend
    the same results under the same marks.
    """
    script = calls(("web_search", {"query": "open until nine"}), then="Open until nine [S1]. Bye.")
    async with provided(script, web=[site(tmp_path)]) as (client, puppet, _):
        message = await ask(client, "When?", tools=[SEARCH])
        puppet.script = calls(then="Sure.")
        turns = [
            {"role": "user", "content": "When?"},
            {"role": "assistant", "content": message.content},
            {"role": "user", "content": "Sure?"},
        ]
        await ask(client, messages=turns, tools=[SEARCH])
    use, result, cited, rest = message.content
    assert (use.type, use.name, use.input) == (
        *("server_tool_use", "web_search"),
        {"query": "open until nine"},
    )
    assert (result.type, result.tool_use_id) == ("web_search_tool_result", use.id)
    assert result.content[0].url == HOURS
    [citation] = cited.citations
    assert (citation.url, citation.cited_text) == (HOURS, "The shop is open until nine.")
    assert (cited.text, rest.text) == ("Open until nine", ". Bye.")
    assert message.usage.server_tool_use.web_search_requests == 1
    first, second = (results(puppet.requests[at])[0] for at in (1, 2))
    assert first == second
    assert first.value["results"][0]["text"].endswith("open until nine.")
    assert first.marks[0] == "S1"


@pytest.mark.parametrize(
    ("limits", "urls"),
    [
        ({}, {HOURS, BLOG}),
        ({"allowed_domains": ["example"]}, {HOURS, BLOG}),
        ({"allowed_domains": ["Shop.Example/blog"]}, {BLOG}),
        ({"allowed_domains": ["shop.example/b*"]}, {BLOG}),
        ({"blocked_domains": ["shop.example/blog"]}, {HOURS}),
        ({"blocked_domains": ["shop.example"]}, set[str]()),
        ({"allowed_domains": ["hop.example"]}, set[str]()),
    ],
)
async def test_a_search_keeps_to_its_domains(limits: Any, urls: set[str], tmp_path: Path) -> None:
    """Domains, with paths or without, filter the results."""
    script = calls(("web_search", {"query": "opening hours"}))
    async with provided(script, web=[site(tmp_path)]) as (client, _, _):
        message = await ask(client, tools=[{**SEARCH, **limits}])
    assert {each.url for each in only(message, "web_search_tool_result").content} == urls


async def test_a_fetch_reads_a_page(tmp_path: Path) -> None:
    """A page that was found is read, cut to its limit; with citations it can be cited."""
    tool = {**FETCH, "citations": {"enabled": True}, "max_content_tokens": 9}
    steps = ("web_search", {"query": "open until nine"}), ("web_fetch", {"url": HOURS})
    script = calls(*steps, then="It is open [S3].")
    async with provided(script, web=[site(tmp_path)]) as (client, _, _):
        message = await ask(client, tools=[SEARCH, tool])
    page = only(message, "web_fetch_tool_result").content
    assert (page.type, page.url) == ("web_fetch_result", HOURS)
    assert page.content.source.data == "Opening hours\nThe shop is open until"
    [citation] = message.content[-2].citations
    assert (citation.type, citation.document_title) == ("char_location", "Opening hours")
    assert message.usage.server_tool_use.web_fetch_requests == 1


@pytest.mark.parametrize(
    ("text", "url", "limits", "code"),
    [
        ("Go.", HOURS, {}, "url_not_in_prior_context"),
        (HOURS, HOURS, {"allowed_domains": ["shop.example/blog"]}, "url_not_allowed"),
        (HOURS, HOURS, {"blocked_domains": ["example"]}, "url_not_allowed"),
        (f"{HOURS}x", f"{HOURS}x", {}, "url_not_accessible"),
        ("file:///etc/passwd", "file:///etc/passwd", {}, "invalid_tool_input"),
        ("x", f"https://shop.example/{'x' * 300}", {}, "url_too_long"),
    ],
)
async def test_a_fetch_that_is_refused(
    text: str, url: str, limits: Any, code: str, tmp_path: Path
) -> None:
    """An address outside of the conversation, the domains or the sources gives an error block."""
    script = calls(("web_fetch", {"url": url}))
    async with provided(script, web=[site(tmp_path)]) as (client, _, _):
        message = await ask(client, text, tools=[{**FETCH, **limits}])
    assert only(message, "web_fetch_tool_result").content.error_code == code
    assert message.usage.server_tool_use.web_fetch_requests == 0
    assert message.stop_reason == "end_turn"


async def test_a_tool_is_used_only_so_often(tmp_path: Path) -> None:
    """Beyond `max_uses` a call gives an error block, which is not counted."""
    script = calls(("web_search", {"query": "hours"}), ("web_search", {"query": "more hours"}))
    async with provided(script, web=[site(tmp_path)]) as (client, _, _):
        message = await ask(client, tools=[{**SEARCH, "max_uses": 1}])
    [first, second] = [each for each in message.content if each.type == "web_search_tool_result"]
    assert isinstance(first.content, list)
    assert second.content.error_code == "max_uses_exceeded"
    assert message.usage.server_tool_use.web_search_requests == 1


@pytest.mark.parametrize(
    "tool",
    [
        {**SEARCH, "allowed_domains": ["a.example"], "blocked_domains": ["b.example"]},
        {**SEARCH, "allowed_domains": ["https://a.example"]},
        {**FETCH, "max_uses": 0},
        {**SEARCH, "name": "search"},
    ],
)
async def test_a_wrong_tool_is_refused(tool: Any, tmp_path: Path) -> None:
    """A configuration that cannot be kept is an error of the request."""
    async with provided(calls(), web=[site(tmp_path)]) as (client, puppet, _):
        with pytest.raises(anthropic.BadRequestError, match=r"tools\.0"):
            await ask(client, tools=[tool])
    assert puppet.requests == []


async def test_python_keeps_its_variables_in_a_container() -> None:
    """The container of a message can be named by the next one; files can be downloaded."""
    async with provided(calls(("python", {"code": "n = 6"}))) as (client, puppet, _):
        first = await ask(client, tools=[PYTHON])
        code = "print(n * 7); open('sum.txt', 'w').write(str(n)); print(1 / 0)"
        puppet.script = calls(("python", {"code": code}))
        second = await ask(client, tools=[PYTHON], container=first.container.id)
        result = only(second, "code_execution_tool_result").content
        [output] = result.content
        facts = await client.files.retrieve_metadata(output.file_id)
        written = await (await client.files.download(output.file_id)).read()
    assert first.container.id == second.container.id
    assert first.container.expires_at
    assert (result.stdout, result.return_code) == ("42\n", 1)
    assert result.stderr.startswith("Traceback")
    assert (facts.filename, facts.downloadable, written) == ("sum.txt", True, b"6")


async def test_commands_and_the_editor_share_a_container() -> None:
    """A newer tool runs commands and edits files, each with its own blocks."""
    editor = "text_editor_code_execution"
    steps = (
        (editor, {"command": "create", "path": "/mnt/data/a.txt", "file_text": "one\ntwo\n"}),
        (editor, {"command": "str_replace", "path": "a.txt", "old_str": "two", "new_str": "2"}),
        ("bash_code_execution", {"command": "cat a.txt; echo no >&2; exit 3"}),
        (editor, {"command": "view", "path": "a.txt", "view_range": [2, -1]}),
        (editor, {"command": "view", "path": "none.txt"}),
        (editor, {"command": "view", "path": "/etc/passwd"}),
    )
    async with provided(calls(*steps)) as (client, puppet, _):
        message = await ask(client, tools=[BASH])
    assert [tool.name for tool in puppet.requests[0].tools] == ["bash_code_execution", editor]
    created, replaced, ran, viewed, missing, outside = (
        each.content for each in message.content if each.type.endswith("_tool_result")
    )
    assert created.is_file_update is False
    assert (replaced.old_start, replaced.lines) == (2, ["-two", "+2"])
    assert (ran.stdout, ran.stderr, ran.return_code) == ("one\n2\n", "no\n", 3)
    assert (viewed.content, viewed.start_line, viewed.total_lines) == ("2", 2, 2)
    assert missing.error_code == "file_not_found"
    assert outside.error_code == "invalid_tool_input"


async def test_an_upload_is_put_into_the_container() -> None:
    """A `container_upload` block names a file that code then reads under its own name."""
    async with provided(calls(("bash_code_execution", {"command": "cat in.csv"}))) as (
        client,
        _,
        _,
    ):
        upload = await client.files.upload(file=("in.csv", b"a,b\n1,2\n"))
        blocks: Any = [{"type": "container_upload", "file_id": upload.id}]
        message = await ask(client, messages=[{"role": "user", "content": blocks}], tools=[CODE])
        listed = [each.id async for each in client.files.list()]
        await client.files.delete(upload.id)
        with pytest.raises(anthropic.NotFoundError):
            await client.files.retrieve_metadata(upload.id)
    assert only(message, "bash_code_execution_tool_result").content.stdout == "a,b\n1,2\n"
    assert listed == [upload.id]


async def test_an_expired_container_is_refused() -> None:
    """A container that was idle for too long cannot be named any more."""
    clock = Clock()
    async with provided(calls(("python", {"code": "1"})), clock=clock) as (client, _, _):
        first = await ask(client, tools=[PYTHON])
        clock.now += 21 * 60
        with pytest.raises(anthropic.BadRequestError, match="expired"):
            await ask(client, tools=[PYTHON], container=first.container.id)


async def test_code_that_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit of an execution gives an error block."""
    steps = (
        ("python", {"code": "while True: pass"}),
        ("bash_code_execution", {"command": "sleep 9"}),
    )
    async with provided(calls(*steps)) as (client, _, provider):
        provider.containers.seconds = 0.2
        message = await ask(client, tools=[CODE])
    codes = [each.content.error_code for each in message.content if hasattr(each, "tool_use_id")]
    assert codes == ["execution_time_exceeded"] * 2


async def test_a_stream_shows_a_server_call() -> None:
    """The input of a call comes as JSON, its result at once, the container at the end."""
    async with provided(calls(("bash_code_execution", {"command": "echo hi"}))) as (client, _, _):
        seen = await events(client, tools=[BASH])
    start = next(each["content_block"] for each in seen if each["type"] == "content_block_start")
    assert (start["type"], start["input"]) == ("server_tool_use", {})
    pieces = [each["delta"].get("partial_json") for each in seen if "delta" in each]
    assert "".join(filter(None, pieces)) == '{"command": "echo hi"}'
    [result] = [
        each["content_block"]
        for each in seen
        if each.get("content_block", {}).get("type") == "bash_code_execution_tool_result"
    ]
    assert result["content"]["stdout"] == "hi\n"
    assert seen[-2]["delta"]["container"]["id"].startswith("cntr_")


async def test_a_long_turn_pauses_and_goes_on() -> None:
    """After so many steps the message pauses; sent back, it is continued."""
    command = ("bash_code_execution", {"command": "true"})
    script = calls(*[command] * (MAX_STEPS + 1), then="At last.")
    async with provided(script) as (client, _, _):
        first = await ask(client, tools=[BASH])
        turns = [
            {"role": "user", "content": "Go."},
            {"role": "assistant", "content": first.content},
        ]
        second = await ask(client, messages=turns, tools=[BASH], container=first.container.id)
    assert first.stop_reason == "pause_turn"
    assert (second.stop_reason, second.content[-1].text) == ("end_turn", "At last.")


async def test_server_and_client_calls_in_one_proposal() -> None:
    """The server's call is run, and the client's ends the message."""
    script = [ProposedCall("bash_code_execution", '{"command": "true"}'), ProposedCall("add", "{}")]
    async with provided(lambda _: script) as (client, _, _):
        message = await ask(client, tools=[BASH, ADD])
    kinds = [each.type for each in message.content]
    assert kinds == ["server_tool_use", "bash_code_execution_tool_result", "tool_use"]
    assert message.stop_reason == "tool_use"


async def test_calls_of_unknown_tools_end() -> None:
    """The backend is told of a call that nobody can run, and fails when it does not learn."""

    def script(request: BackendRequest) -> Any:
        return [ProposedCall("nobody", "{}")]

    async with provided(script) as (client, puppet, _):
        with pytest.raises(anthropic.InternalServerError, match="do not exist"):
            await ask(client)
    assert "no such tool" in results(puppet.requests[-1])[0].text


async def test_an_mcp_server() -> None:
    """The tools of `mcp_servers` are called, and shown in blocks of their own."""
    async with (
        web_peer() as peer,
        provided(calls(("desk__add", {"a": 20, "b": 22})), allow_egress=["127.0.0.1"]) as (
            client,
            puppet,
            _,
        ),
    ):
        server: Any = {"type": "url", "name": "desk", "url": f"http://127.0.0.1:{peer.port}/mcp"}
        tool: Any = {
            "type": "mcp_toolset",
            "mcp_server_name": "desk",
            "default_config": {"enabled": False},
            "configs": {"add": {"enabled": True}},
        }
        create: Any = client.beta.messages.create
        asked = [{"role": "user", "content": "Go."}]
        request = {"model": "puppet", "max_tokens": 99, "messages": asked, "tools": [tool]}
        message = await create(**request, mcp_servers=[server])
        with pytest.raises(anthropic.BadRequestError, match="MCP server"):
            await create(**request)
        with pytest.raises(anthropic.BadRequestError, match="cannot be used"):
            await create(**request, mcp_servers=[{**server, "url": "http://10.0.0.1/mcp"}])
    use, result, _ = message.content
    assert (use.type, use.name, use.server_name) == ("mcp_tool_use", "add", "desk")
    assert (result.type, result.is_error, result.content[0].text) == (
        *("mcp_tool_result", False),
        "42",
    )
    assert [tool.name for tool in puppet.requests[0].tools] == ["desk__add"]
