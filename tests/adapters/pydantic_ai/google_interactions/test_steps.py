"""Every kind of step of an interaction, through the real SDK and the real adapter."""

from base64 import b64encode
from typing import Any

import pytest

from tests.adapters.pydantic_ai.handwritten_scripts import Act, interaction, output, scripted
from tests.adapters.pydantic_ai.recordings import INTERACTIONS
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptResponse
from toolcrib.adapters.codec import Invocation
from toolcrib.tools.code_interpreter import CodeInterpreterResult
from toolcrib.tools.file_search import FileSearchResult
from toolcrib.tools.mcp import McpCallResult
from toolcrib.tools.web_fetch import WebFetchResult
from toolcrib.tools.web_search import WebSearchResult

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])


def heard(act: Act, stream: bool, *steps: Json) -> PromptResponse[Any]:
    script = scripted(INTERACTIONS, interaction(*steps))
    (response,) = act(script, stream=stream).responses
    return response


def call(kind: str, key: str = "c1", **facts: Any) -> Json:
    return {"type": f"{kind}_call", "id": key, "signature": "c2ln", **facts}


def result(kind: str, key: str = "c1", **facts: Any) -> Json:
    return {"type": f"{kind}_result", "call_id": key, "signature": "c2ln", **facts}


def ran(act: Act, stream: bool, *steps: Json) -> tuple[str, Invocation]:
    response = heard(act, stream, *steps, output("So."))
    ((name, found),) = response.invocations
    assert (response.text, found.item_id) == ("So.", "c1")
    return name, found


@both_forms
def test_a_search(stream: bool, act: Act) -> None:
    """H33: its queries are known; what it found is told where the answer cites it."""
    asked = call("google_search", arguments={"queries": ["a", "b"]}, search_type="web_search")
    told = result("google_search", result=[{"search_suggestions": "<p>"}], is_error=False)
    cites = {"type": "url_citation", "url": "https://example.org/a", "title": "A", "end_index": 3}

    response = heard(act, stream, output("So.", cites), asked, told)

    ((name, searched),) = response.invocations
    assert (name, searched.params.queries, searched.success) == ("web_search", ("a", "b"), True)
    found = response.hosted_outputs["web_search"]
    assert isinstance(found, WebSearchResult)
    (cited,) = found.citations
    assert (cited.url, cited.title, cited.span) == ("https://example.org/a", "A", (0, 3))


@both_forms
def test_a_page_that_was_read_and_one_that_was_not(stream: bool, act: Act) -> None:
    """N17: an address that could not be read is told with the provider's word for why."""
    asked = call("url_context", arguments={"urls": ["https://a.org", "https://b.org"]})
    pages = [
        {"url": "https://a.org", "status": "success"},
        {"url": "https://b.org", "status": "paywall"},
    ]

    name, fetched = ran(act, stream, asked, result("url_context", result=pages))

    assert (name, fetched.params.urls) == ("web_fetch", ("https://a.org", "https://b.org"))
    assert isinstance(fetched.value, WebFetchResult)
    assert [page.status for page in fetched.value.pages] == ["success", "paywall"]


@both_forms
def test_code_that_ran(stream: bool, act: Act) -> None:
    """C17: what it printed, and what it drew."""
    picture = b64encode(b"\x89PNG").decode()
    drawn = {"type": "image", "mime_type": "image/png", "data": picture}
    asked = call("code_execution", arguments={"code": "print(1)", "language": "python"})
    printed = result("code_execution", result=[{"type": "text", "text": "1\n"}, drawn])

    name, computed = ran(act, stream, asked, printed)

    assert name == "code_interpreter"
    assert isinstance(computed.value, CodeInterpreterResult)
    assert (computed.value.code, computed.value.stdout) == ("print(1)", "1\n")
    assert computed.value.images == (f"data:image/png;base64,{picture}",)


@both_forms
def test_code_that_failed(stream: bool, act: Act) -> None:
    """N17: an error of the code is a failure, with what the code said."""
    asked = call("code_execution", arguments={"code": "1/0"})
    told = result("code_execution", result="ZeroDivisionError", is_error=True)

    _, computed = ran(act, stream, asked, told)

    assert not computed.success
    assert computed.value.stderr == "ZeroDivisionError"


@both_forms
def test_files_that_were_searched(stream: bool, act: Act) -> None:
    """H33: a search for files tells nothing itself; what it found is what the answer cites."""
    cites = {"type": "file_citation", "file_name": "a.txt", "document_uri": "f/1", "end_index": 3}

    response = heard(act, stream, call("file_search"), result("file_search"), output("So.", cites))

    ((name, searched),) = response.invocations
    assert (name, searched.success) == ("file_search", True)
    found = response.hosted_outputs["file_search"]
    assert isinstance(found, FileSearchResult)
    assert [(each.file_id, each.filename) for each in found.citations] == [("f/1", "a.txt")]


@both_forms
@pytest.mark.parametrize(
    "answer", ["Yes.", [{"type": "text", "text": "Yes."}]], ids=["text", "parts"]
)
def test_a_tool_of_a_remote_server(stream: bool, answer: Any, act: Act) -> None:
    """H33: the server, its tool, what that was asked and what it gave."""
    of = {"server_name": "wiki", "name": "ask"}
    asked = call("mcp_server_tool", **of, arguments={"q": "why"})

    name, told = ran(act, stream, asked, result("mcp_server_tool", **of, result=answer))

    assert (name, told.params.server, told.params.tool) == ("mcp", "wiki", "ask")
    assert told.params.arguments == {"q": "why"}
    assert told.value == McpCallResult(tool="ask", output="Yes.", arguments={"q": "why"})


@both_forms
def test_a_tool_of_a_remote_server_that_failed(stream: bool, act: Act) -> None:
    """N17: what the server says went wrong is the error."""
    of = {"server_name": "wiki", "name": "ask"}
    asked = call("mcp_server_tool", **of, arguments={})
    told = result("mcp_server_tool", **of, result="no such page", is_error=True)

    _, failed = ran(act, stream, asked, told)

    assert not failed.success
    assert "no such page" in (failed.error or "")


@both_forms
def test_a_tool_that_nobody_knows(stream: bool, act: Act) -> None:
    """N24: it is recorded under its own name, with what it was asked and what it gave."""
    asked = call("google_maps", arguments={"queries": ["cafe"]})

    name, found = ran(act, stream, asked, result("google_maps", result=[{"places": []}]))

    assert (name, found.kind, found.params) == ("google_maps", "google_maps", {"queries": ["cafe"]})
    assert found.value == [{"places": []}]


@both_forms
def test_a_call_without_a_result(stream: bool, act: Act) -> None:
    """N17: a call that nothing came of is told, and not as a success."""
    _, lost = ran(act, stream, call("code_execution", arguments={"code": "while True: pass"}))

    assert not lost.success


@both_forms
def test_what_nobody_knows_is_kept(stream: bool, act: Act) -> None:
    """E4: unknown steps and files that lie elsewhere do no harm, and are counted."""
    video = {"type": "video", "uri": "https://example.org/v", "mime_type": "video/mp4"}
    steps = [{"type": "dream", "of": "sheep"}, {"type": "model_output", "content": [video]}]

    response = heard(act, stream, *steps, output("So."))

    assert response.text == "So."
    assert dict(response.skipped) == {"dream": 1, "video": 1}


TEXT = "Grüße 🌍! Ende"


@both_forms
@pytest.mark.parametrize(
    ("start", "end", "span"),
    [
        (None, 7, (0, 5)),
        (0, 7, (0, 5)),
        (8, 13, (6, 8)),
        (14, 18, (9, 13)),
        (8, 11, None),
        (9, 13, None),
        (14, 19, None),
        (5, 5, None),
        (7, 2, None),
        (-1, 3, None),
        (3, None, None),
    ],
)
def test_bytes_are_not_characters(
    stream: bool, start: int | None, end: int | None, span: tuple[int, int] | None, act: Act
) -> None:
    """E6: places come in bytes; one that is not between characters of the text is none."""
    places = {"start_index": start, "end_index": end}
    note: Json = {"type": "url_citation", "url": "https://example.org/"}
    note |= {key: place for key, place in places.items() if place is not None}

    response = heard(act, stream, output(TEXT, note))

    assert [each.span for each in response.citations] == [span]
