"""What pydantic-ai would leave out of Bedrock's answers."""

from typing import Any

import pytest

from tests.adapters.pydantic_ai.handwritten_scripts import Act, scripted
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib import PromptResponse

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])


def converse(*blocks: Json) -> Json:
    usage = {"inputTokens": 1, "outputTokens": 1, "totalTokens": 2}
    told = {"stopReason": "end_turn", "usage": usage, "metrics": {"latencyMs": 1}}
    return {"output": {"message": {"role": "assistant", "content": list(blocks)}}, **told}


def use(name: str, key: str = "t1", **asked: Any) -> Json:
    told = {"toolUseId": key, "name": name, "input": asked, "type": "server_tool_use"}
    return {"toolUse": told}


def result(name: str, key: str = "t1", *content: Json, status: str = "success") -> Json:
    told = {"toolUseId": key, "content": list(content), "status": status, "type": f"{name}_result"}
    return {"toolResult": told}


def heard(act: Act, stream: bool, *blocks: Json) -> PromptResponse[Any]:
    (response,) = act(scripted("bedrock", converse(*blocks)), stream=stream).responses
    return response


@both_forms
def test_a_search_is_told(stream: bool, act: Act) -> None:
    """N24: the models that ground their answers search, and cite what they found."""
    web = {"location": {"web": {"url": "https://example.org/a", "domain": "example.org"}}}
    cited = {"citationsContent": {"citations": [web], "content": [{"text": "It rains."}]}}

    response = heard(
        act, stream, use("nova_grounding"), result("nova_grounding"), {"text": "So: "}, cited
    )

    ((name, searched),) = response.invocations
    assert (name, searched.item_id, searched.success) == ("web_search", "t1", True)
    (found,) = response.citations
    assert response.text[slice(*found.span or ())] == "It rains."


@both_forms
def test_a_tool_that_nobody_knows_is_told(stream: bool, act: Act) -> None:
    """N24: under its own name, in its place, with what it was asked and what it gave."""
    code = use("nova_code_interpreter", "t2", snippet="1")
    ran = result("nova_code_interpreter", "t2", {"json": {"stdOut": "1", "exitCode": 0}})
    gave = {"json": {"wet": True}}

    response = heard(
        act,
        stream,
        use("nova_dowsing", where="here"),
        result("nova_dowsing", "t1", gave),
        code,
        ran,
        {"text": "Water."},
    )

    assert [each.item_id for _, each in response.invocations] == ["t1", "t2"]
    name, odd = response.invocations[0]
    assert (name, odd.params, odd.value) == ("nova_dowsing", {"where": "here"}, [gave])
    assert response.text == "Water."


@both_forms
def test_a_tool_that_failed_is_told_as_failed(stream: bool, act: Act) -> None:
    """N17: the provider's word for it is the error."""
    response = heard(
        act,
        stream,
        use("nova_grounding"),
        result("nova_grounding", status="error"),
        {"text": "No."},
    )

    ((_, failed),) = response.invocations
    assert not failed.success
    assert "error" in (failed.error or "")


def test_a_block_that_nobody_knows_is_kept(act: Act) -> None:
    """E4: it does no harm, and is counted. boto tells no more than its name."""
    response = heard(act, False, {"hologram": {"depth": 3}}, {"text": "Hi."})

    assert (response.text, dict(response.skipped)) == ("Hi.", {"hologram": 1})
