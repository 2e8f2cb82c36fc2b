"""The scripted model stands for OpenAI, and says what it is told to say."""

import pytest

from tests.adapters.openai.loopback_adapter import add, ask
from toolcrib import PromptEvaluationError, Session, ToolInvoked
from toolcrib.adapters.openai import OpenAIAdapter
from toolcrib.testing import Recorder, ScriptedOpenAI, calls, says

CITED = {"type": "url_citation", "url": "https://e.org", "start_index": 0, "end_index": 1}


@pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])
async def test_a_prompt_is_answered_from_the_script(stream: bool) -> None:
    """A test needs neither a key nor a network: calls run, and the last output is the answer."""
    model = ScriptedOpenAI([calls("add", {"a": 1, "b": 2})], [says("3", CITED)])
    adapter = OpenAIAdapter(model="any", client=model.client())
    session = Session()
    recorder = Recorder(session.bus)

    found = await adapter.evaluate_async(ask(add), session=session, stream=stream)

    assert (found.text, found.model, found.citations[0].span) == ("3", "any", (0, 1))
    assert [event.value for event in recorder.of(ToolInvoked)] == [3]
    assert [tool["name"] for tool in model.requests[0]["tools"]] == ["add"]
    assert model.requests[1]["input"] == [
        {"type": "function_call_output", "call_id": "call_1", "output": "3"}
    ]


async def test_a_request_beyond_the_script_is_told() -> None:
    """A test that asks once more than it meant to does not get an old answer again."""
    adapter = OpenAIAdapter(model="any", client=ScriptedOpenAI([calls("add")]).client())

    with pytest.raises(PromptEvaluationError, match="the script is over"):
        await adapter.evaluate_async(ask(add))
