"""What pydantic-ai would leave out of what comes over the Responses API."""

import pytest

from tests.adapters.openai.scripted_provider import message, response
from tests.adapters.pydantic_ai.handwritten_scripts import Act, scripted
from tests.adapters.pydantic_ai.wire.traffic import Json

both_forms = pytest.mark.parametrize("stream", [False, True], ids=["blocking", "streamed"])

SEARCH: Json = {
    "type": "web_search_call",
    "id": "ws_1",
    "status": "completed",
    "action": {"type": "search", "query": "a", "queries": ["a"]},
}


@both_forms
def test_a_search_that_does_not_tell_what_was_done(stream: bool, act: Act) -> None:
    """N24: on xAI a search has arguments and no action; its query is known all the same."""
    asked: Json = {**SEARCH, "arguments": '{"query": "who"}', "name": "web_search", "call_id": ""}
    asked.pop("action")

    replayed = act(scripted("openai-responses", response(asked, message("They."))), stream=stream)

    (found,) = replayed.responses
    ((name, searched),) = found.invocations
    assert (name, searched.item_id, searched.params.queries) == ("web_search", "ws_1", ("who",))
    assert found.text == "They."


@both_forms
def test_a_call_that_nobody_knows_is_told_in_its_place(stream: bool, act: Act) -> None:
    """N24: it is recorded under its own name, between the calls that it ran between."""
    odd: Json = {"type": "x_search_call", "id": "xs_1", "status": "completed", "arguments": "{}"}
    more = {"type": "custom_tool_call", "id": "ctc_1", "call_id": "c_1", "name": "n", "input": "i"}
    again = {**SEARCH, "id": "ws_2"}

    replayed = act(
        scripted("openai-responses", response(SEARCH, odd, more, again, message("So."))),
        stream=stream,
    )

    (found,) = replayed.responses
    assert [(name, each.item_id) for name, each in found.invocations] == [
        ("web_search", "ws_1"),
        ("x_search", "xs_1"),
        ("custom_tool", "c_1"),
        ("web_search", "ws_2"),
    ]
    assert (found.text, dict(found.skipped)) == ("So.", {"native_call": 2})
    ((_, told),) = [each for each in found.invocations if each[0] == "x_search"]
    assert (told.success, told.value) == (True, odd)


def test_calls_side_by_side_are_told_as_they_began(act: Act) -> None:
    """N24: a call that began first is told first, whenever it was over."""
    odd: Json = {"type": "x_search_call", "id": "xs_1", "status": "completed", "arguments": "{}"}
    script = scripted("openai-responses", response(odd, SEARCH, message("So.")))
    events = script[0].events
    (done,) = [e for e in events if e["type"].endswith("item.done") and e["item"] == odd]
    events.remove(done)
    events.insert(-1, done)

    replayed = act(script, stream=True)

    names = [name for name, _ in replayed.responses[0].invocations]
    assert names == ["x_search", "web_search"]


@both_forms
def test_what_a_shell_printed_belongs_to_its_call(stream: bool, act: Act) -> None:
    """N24: the provider's shell tells what it did in a second item."""
    action = {"commands": ["ls"], "timeout_ms": None, "max_output_length": None}
    call: Json = {"type": "shell_call", "id": "sh_1", "call_id": "call_1", "action": action}
    printed: Json = {"type": "shell_call_output", "id": "sho_1", "call_id": "call_1", "output": []}

    replayed = act(
        scripted("openai-responses", response(call, printed, message("Done."))), stream=stream
    )

    ((name, ran),) = replayed.responses[0].invocations
    assert (name, ran.item_id, ran.params) == ("shell", "call_1", {"action": action})
    assert ran.value == printed


@both_forms
def test_what_is_no_call_is_kept(stream: bool, act: Act) -> None:
    """E4: an item that nobody knows does no harm, is counted, and is in the ledger; so is a call
    that nobody could answer.
    """
    odd = {"type": "hologram", "id": "h_1", "depth": 3}
    patch: Json = {"type": "apply_patch_call", "id": "p_1", "call_id": "c_1", "operation": {}}

    replayed = act(
        scripted("openai-responses", response(odd, patch, message("Hi."))), stream=stream
    )

    (found,) = replayed.responses
    assert dict(found.skipped) == {"hologram": 1, "apply_patch_call": 1}
    (step,) = replayed.steps
    assert [item["unread"] for item in step.items if "unread" in item] == [odd, patch]


@both_forms
def test_a_list_of_tools_is_no_call(stream: bool, act: Act) -> None:
    """N24: a server that was only asked what it has was not called."""
    listed: Json = {"type": "mcp_list_tools", "id": "l_1", "server_label": "deepwiki", "tools": []}

    replayed = act(scripted("openai-responses", response(listed, message("Hi."))), stream=stream)

    (found,) = replayed.responses
    assert (found.invocations, dict(found.skipped)) == ((), {})


@both_forms
def test_remarks_on_the_way_are_not_the_answer(stream: bool, act: Act) -> None:
    """N24: where the model tells the two apart, so do we."""
    remark = message("Let me see. ", id="msg_1", phase="commentary")
    answer = message("It is.", id="msg_2", phase="final_answer")

    replayed = act(scripted("openai-responses", response(remark, SEARCH, answer)), stream=stream)

    assert [each.text for each in replayed.responses] == ["It is."]
