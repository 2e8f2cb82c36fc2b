"""What pydantic-ai would leave out of Groq's answers."""

from base64 import b64encode

import pytest

from tests.adapters.pydantic_ai.handwritten_scripts import Act, completion, scripted
from tests.adapters.pydantic_ai.script_replay import Replayed
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib.adapters.codec import Invocation
from toolcrib.tools.code_interpreter import CodeInterpreterResult
from toolcrib.tools.web_search import WebSearchResult

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])

PAGE = {"title": "A", "url": "https://example.org/a", "content": "a", "score": 0.9}
SEARCH: Json = {
    "type": "search",
    "arguments": '{"query": "a"}',
    "output": "Title: A",
    "search_results": {"results": [PAGE]},
}
VISIT: Json = {
    "type": "visit",
    "arguments": '{"url": "https://example.org/b"}',
    "output": "Title: B",
    "search_results": {"results": []},
}
PYTHON: Json = {"type": "python", "arguments": '{"code": "print(1)"}', "output": "1\n"}


def ran(act: Act, stream: bool, *tools: Json) -> list[tuple[str, Invocation]]:
    replayed: Replayed = act(scripted("groq", completion("So.", *tools)), stream=stream)
    assert replayed.responses[0].text == "So."
    return list(replayed.responses[0].invocations)


@both_forms
def test_every_tool_that_ran_is_told_in_order(stream: bool, act: Act) -> None:
    """N24: not only searches: pages that were opened and programs that were run as well."""
    told = ran(act, stream, SEARCH, VISIT, PYTHON, SEARCH)

    assert [name for name, _ in told] == [
        "web_search",
        "web_search",
        "code_interpreter",
        "web_search",
    ]
    assert len({each.item_id for _, each in told}) == 4
    searched, visited, computed = (each for _, each in told[:3])
    assert isinstance(searched.value, WebSearchResult)
    assert searched.value.source_urls == ("https://example.org/a",)
    assert (visited.params.action, visited.params.url) == ("open_page", "https://example.org/b")
    assert isinstance(computed.value, CodeInterpreterResult)
    assert (computed.value.code, computed.value.stdout) == ("print(1)", "1\n")


@both_forms
def test_a_picture_that_code_drew_is_told(stream: bool, act: Act) -> None:
    """C17: a picture comes with the run that drew it."""
    picture = b64encode(b"\x89PNG").decode()
    told = ran(act, stream, {**PYTHON, "code_results": [{"png": picture}, {"png": "!"}]})

    ((_, drawn),) = told
    assert drawn.value.images == (f"data:image/png;base64,{picture}",)
    assert drawn.value.stdout == "1\n"


@both_forms
def test_pages_of_a_browser_are_sources(stream: bool, act: Act) -> None:
    """H39: what the browser showed is what was looked at."""
    shown: Json = {
        "type": "browser_search",
        "arguments": '{"query": "a"}',
        "output": "A",
        "browser_results": [PAGE],
    }

    ((name, browsed),) = ran(act, stream, shown)

    assert (name, browsed.value.source_urls) == ("web_search", ("https://example.org/a",))


@both_forms
def test_a_tool_that_nobody_knows_is_kept(stream: bool, act: Act) -> None:
    """N24: it is recorded under its own name, whatever its arguments are."""
    tool: Json = {"type": "Oracle", "arguments": "not JSON", "output": "42"}

    ((name, odd),) = ran(act, stream, tool)

    assert (name, odd.kind, odd.value) == ("oracle", "Oracle", "42")
    assert odd.params == {"input": "not JSON"}


@both_forms
def test_a_tool_without_a_result_has_failed(stream: bool, act: Act) -> None:
    """N17: a call that nothing came of is told, and not as a success."""
    ((_, lost),) = ran(act, stream, {**PYTHON, "output": None})

    assert not lost.success
    assert "has no result" in (lost.error or "")
