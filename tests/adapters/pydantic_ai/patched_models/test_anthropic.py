"""What pydantic-ai would leave out of Anthropic's answers."""

import pytest

from tests.adapters.pydantic_ai.handwritten_scripts import Act, message, scripted
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib.tools.web_search import WebSearchResult

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])

FOUND = {
    "type": "web_search_result",
    "url": "https://example.org/a",
    "title": "A",
    "encrypted_content": "e",
}


def search(key: str = "srvtoolu_1", name: str = "web_search", **asked: str) -> Json:
    given = asked or {"query": "a"}
    return {"type": "server_tool_use", "id": key, "name": name, "input": given}


def found(key: str = "srvtoolu_1") -> Json:
    return {"type": "web_search_tool_result", "tool_use_id": key, "content": [FOUND]}


def text(said: str) -> Json:
    return {"type": "text", "text": said}


@both_forms
def test_a_tool_that_nobody_knows_is_an_invocation(stream: bool, act: Act) -> None:
    """N24: a new tool of the provider's is recorded under its own name, with what it was asked and
    what it gave.
    """
    result = {"type": "dowsing_tool_result", "tool_use_id": "srvtoolu_9", "content": {"wet": True}}
    body = message(search("srvtoolu_9", "dowsing", where="here"), result, text("Water."))

    replayed = act(scripted("anthropic", body), stream=stream)

    ((name, ran),) = replayed.responses[0].invocations
    assert (name, ran.item_id, ran.kind) == ("dowsing", "srvtoolu_9", "dowsing")
    assert ran.success
    assert ran.params == {"where": "here"}
    assert ran.value == {"wet": True}
    assert replayed.responses[0].text == "Water."


@both_forms
@pytest.mark.parametrize("name", ["web_search", "bash_code_execution"])
def test_a_reason_that_nobody_knows_is_told(stream: bool, name: str, act: Act) -> None:
    """N17: the provider's codes are open words: container_expired is one that its SDK lacks."""
    reason = {"type": f"{name}_tool_result_error", "error_code": "container_expired"}
    failed = {"type": f"{name}_tool_result", "tool_use_id": "srvtoolu_1", "content": reason}

    replayed = act(
        scripted("anthropic", message(search(name=name), failed, text("No."))), stream=stream
    )

    ((_, ran),) = replayed.responses[0].invocations
    assert not ran.success
    assert "container_expired" in (ran.error or "")


@both_forms
def test_calls_keep_their_order_whoever_knows_them(stream: bool, act: Act) -> None:
    """N24: calls are told in the order in which they ran."""
    result: Json = {"type": "dowsing_tool_result", "tool_use_id": "srvtoolu_2", "content": {}}
    odd = [search("srvtoolu_2", "dowsing"), result]
    body = message(search(), found(), *odd, search("srvtoolu_3"), found("srvtoolu_3"), text("So."))

    replayed = act(scripted("anthropic", body), stream=stream)

    ids = [ran.item_id for _, ran in replayed.responses[0].invocations]
    assert ids == ["srvtoolu_1", "srvtoolu_2", "srvtoolu_3"]


@both_forms
def test_a_block_that_nobody_knows_is_kept(stream: bool, act: Act) -> None:
    """E4: what is no call and no answer does no harm, is counted, and is in the ledger."""
    upload = {"type": "container_upload", "file_id": "file_1"}
    odd = {"type": "hologram", "depth": 3}

    replayed = act(scripted("anthropic", message(upload, text("Hi."), odd)), stream=stream)

    assert replayed.responses[0].text == "Hi."
    assert dict(replayed.responses[0].skipped) == {"container_upload": 1, "hologram": 1}
    (step,) = replayed.steps
    assert [item["unread"] for item in step.items if "unread" in item] == [upload, odd]


@both_forms
def test_a_call_that_nobody_offered_is_told_with_its_arguments(stream: bool, act: Act) -> None:
    """N24: what the provider ran is told as if it had been offered."""
    body = message(search(query="who"), found(), text("They."))

    replayed = act(scripted("anthropic", body), stream=stream, is_offered=False)

    ((name, ran),) = replayed.responses[0].invocations
    assert (name, ran.params.queries) == ("web_search", ("who",))
    assert isinstance(ran.value, WebSearchResult)


@both_forms
def test_a_result_after_a_pause_belongs_to_its_call(stream: bool, act: Act) -> None:
    """N24: a provider that pauses goes on with the same answer, which may begin with a result."""
    first = message(text("I look. "), search(), stop="pause_turn")
    second = message(found(), text("Found."))

    replayed = act(scripted("anthropic", first, second), stream=stream)

    (response,) = replayed.responses
    ((_, ran),) = response.invocations
    assert response.text == "I look. Found."
    assert ran.value.source_urls == ("https://example.org/a",)
    sent = replayed.asked[1]["messages"]
    assert sent[-1]["role"] == "assistant"
    assert [block["type"] for block in sent[-1]["content"]] == ["text", "server_tool_use"]


@both_forms
def test_a_result_after_our_answer_belongs_to_its_call(stream: bool, act: Act) -> None:
    """N24: a call beside one of ours is answered by the provider after ours is."""
    asked = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}
    first = message(search(), asked, stop="tool_use")
    second = message(found(), text("Three."))

    replayed = act(scripted("anthropic", first, second), stream=stream)

    (response,) = replayed.responses
    ((_, ran),) = response.invocations
    assert (ran.item_id, ran.success) == ("srvtoolu_1", True)
    assert ran.value.source_urls == ("https://example.org/a",)
    answers = [block for block in replayed.asked[1]["messages"][-1]["content"]]
    assert [(each["tool_use_id"], each["is_error"]) for each in answers] == [("toolu_1", False)]


@both_forms
def test_a_result_without_a_call_is_told_once(stream: bool, act: Act) -> None:
    """N24: a call that was made before this conversation is known by its result."""
    replayed = act(scripted("anthropic", message(found(), text("Yes."))), stream=stream)

    ((_, ran),) = replayed.responses[0].invocations
    assert (ran.item_id, ran.kind, ran.success) == ("srvtoolu_1", "web_search", True)


def test_an_answer_may_come_whole_at_the_start_of_a_stream(act: Act) -> None:
    """When code goes on to call a tool of ours, the first event is the whole message."""
    asked = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}
    whole = message(text("So: "), asked, stop="tool_use")
    script = scripted("anthropic", whole, message(text("Three.")))
    script[0].events[:] = [{"type": "message_start", "message": whole}, {"type": "message_stop"}]

    replayed = act(script, stream=True)

    (event,) = [each for each in replayed.invoked if each.origin != "provider"]
    assert (event.name, event.value) == ("add", 3)
    assert replayed.responses[0].text == "Three."
    assert replayed.steps[0].usage["output_tokens"] == 5


@both_forms
def test_a_pause_to_make_room_is_no_end(stream: bool, act: Act) -> None:
    """A model that compacted the conversation is asked for the answer it stopped before."""
    room = {"type": "compaction", "content": "They talked."}
    script = scripted(
        "anthropic", message(room, stop="compaction"), message(text("As I was saying."))
    )

    replayed = act(script, stream=stream)

    assert [each.text for each in replayed.responses] == ["As I was saying."]
    assert replayed.asked[1]["messages"][-1]["content"][0]["type"] == "compaction"
