"""What pydantic-ai would leave out of Gemini's answers."""

from typing import Any

import pytest

from tests.adapters.pydantic_ai.handwritten_scripts import Act, scripted
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptResponse

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])
SAID: Json = {"text": "Grüße. So."}


def candidate(*parts: Json, **facts: Any) -> Json:
    content = {"role": "model", "parts": list(parts)}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    told = {"content": content, "finishReason": "STOP", "index": 0, **facts}
    return {"candidates": [told], "usageMetadata": usage, "responseId": "r1"}


def heard(act: Act, stream: bool, body: Json) -> PromptResponse[Any]:
    (response,) = act(scripted("google", body), stream=stream).responses
    assert response.text == SAID["text"]
    return response


def tool(kind: str, what: str, key: str | None, **facts: Any) -> Json:
    named = {"id": key} if key else {}
    return {what: {"toolType": kind, **named, **facts}}


@both_forms
@pytest.mark.parametrize(
    ("kind", "name"), [("GOOGLE_MAPS", "google_maps"), ("GOOGLE_SEARCH_IMAGE", "web_search")]
)
def test_every_tool_of_the_providers_is_told(stream: bool, kind: str, name: str, act: Act) -> None:
    """N24: not only those that pydantic-ai can offer."""
    asked = tool(kind, "toolCall", "t1", args={"queries": ["cafe"]})
    answered = tool(kind, "toolResponse", "t1", response={"found": 1})

    response = heard(act, stream, candidate(asked, answered, SAID))

    ((told, ran),) = response.invocations
    assert (told, ran.item_id, ran.success) == (name, "t1", True)


@both_forms
def test_results_without_ids_belong_to_the_calls_before_them(stream: bool, act: Act) -> None:
    """N24: where neither has an id, order says which belong together."""
    asked = tool("GOOGLE_SEARCH_WEB", "toolCall", None, args={"queries": ["a"]})
    answered = tool("GOOGLE_SEARCH_WEB", "toolResponse", None, response={})

    response = heard(act, stream, candidate(asked, answered, SAID))

    ((_, ran),) = response.invocations
    assert (ran.params.queries, ran.success) == (("a",), True)


@both_forms
def test_a_result_of_code_that_ran_before_is_told(stream: bool, act: Act) -> None:
    """N24: its code may be in an earlier answer."""
    result = {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "1"}}

    response = heard(act, stream, candidate(result, SAID))

    ((name, ran),) = response.invocations
    assert (name, ran.success, ran.value.stdout) == ("code_interpreter", True, "1")


@both_forms
def test_parts_that_nobody_knows_are_kept(stream: bool, act: Act) -> None:
    """E4, E6: they do no harm, are counted, and move no place in the answer."""
    file = {"fileData": {"mimeType": "image/png", "fileUri": "https://example.org/f"}}
    page = {"web": {"uri": "https://example.org/a", "title": "A"}}
    place = {"partIndex": 2, "startIndex": 0, "endIndex": 9, "text": "Grüße."}
    cited = {"groundingChunks": [page], "webSearchQueries": ["a"]}
    grounds = {**cited, "groundingSupports": [{"segment": place, "groundingChunkIndices": [0]}]}

    response = heard(
        act, stream, candidate({"hologram": {}}, file, SAID, groundingMetadata=grounds)
    )

    assert sum(response.skipped.values()) == 2
    assert "fileData" in response.skipped
    if not stream:
        assert [each.span for each in response.citations] == [(0, 6)]
