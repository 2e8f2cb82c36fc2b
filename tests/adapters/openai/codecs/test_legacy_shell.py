"""The first local shell, to and from the Responses API."""

from tests.adapters.openai.codecs.client_tools import ITEMS, LEGACY, TOOLS, call_of, run
from tests.adapters.openai.typed_items import untyped_in_item


def test_the_entry_has_no_options() -> None:
    """Facts 1.1: there are none."""
    assert LEGACY.serialize(TOOLS[LEGACY]) == {"type": "local_shell"}


async def test_the_first_shell_answers_with_text() -> None:
    """Facts 2.2: what was printed."""
    assert await run(LEGACY, ITEMS["call_e"]) == {
        "type": "local_shell_call_output",
        "call_id": "call_e",
        "output": "echo hello",
    }


def test_the_sdk_still_types_the_first_shells_answer_otherwise() -> None:
    """Seen 2026-11-16: OpenAI's guide sends `call_id`, the SDK has `id`. When this fails the SDK
    has caught up: take the exception out.
    """
    answered = LEGACY.output_item(call_of(LEGACY, ITEMS["call_e"]), "ok", success=True)

    assert untyped_in_item(answered) == ["id", "call_id"]
    named = {("id" if key == "call_id" else key): value for key, value in answered.items()}
    assert untyped_in_item(named) == []
