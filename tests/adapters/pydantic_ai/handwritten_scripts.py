"""Short scripts of one's own, for what no recording holds."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from tests.adapters.pydantic_ai.recordings import WIRES, Recorded
from tests.adapters.pydantic_ai.script_replay import Replayed, Theatre
from tests.adapters.pydantic_ai.wire.traffic import Json

WIRE_OF = {"groq": "openai-chat", "google-vertex": "google"}


def scripted(provider: str, *bodies: Json) -> list[Recorded]:
    """What a provider says, in order."""
    wire = WIRES[WIRE_OF.get(provider, provider)]
    return [Recorded(provider, wire, body, wire.events_of(body)) for body in bodies]


class Act:
    """Plays short scripts, one after the other, with the same models."""

    def __init__(self, runner: asyncio.Runner, theatre: Theatre) -> None:
        self._runner = runner
        self._theatre = theatre

    def __call__(
        self, script: Sequence[Recorded], *, stream: bool, is_offered: bool = True
    ) -> Replayed:
        """Play one script."""
        playing = self._theatre.play(script, stream=stream, is_offered=is_offered)
        return self._runner.run(playing)


def message(*blocks: Json, stop: str = "end_turn") -> Json:
    """A message of Anthropic's."""
    told = {"type": "message", "role": "assistant", "id": "msg_1", "model": "claude-sonnet-5"}
    usage = {"input_tokens": 10, "output_tokens": 5}
    return {**told, "content": list(blocks), "stop_reason": stop, "usage": usage}


def completion(content: str, *tools: Json) -> Json:
    """A message of Groq's, with the tools that ran."""
    made: Json = {"role": "assistant", "content": content}
    numbered = [{"index": at, **tool} for at, tool in enumerate(tools)]
    made |= {"executed_tools": numbered} if tools else {}
    return {
        "id": "chatcmpl-1",
        "object": "chat.completion",
        "created": 1,
        "model": "groq/compound",
        "choices": [{"index": 0, "message": made, "finish_reason": "stop"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def interaction(*steps: Json, status: str = "completed") -> Json:
    """An interaction of Gemini's."""
    told = {"id": "v1_1", "object": "interaction", "model": "gemini-3-flash-preview"}
    usage = {"total_input_tokens": 10, "total_output_tokens": 5, "total_tokens": 15}
    return {**told, "status": status, "steps": list(steps), "usage": usage}


def output(text: str, *annotations: Json) -> Json:
    """A step in which the model says something."""
    content: Json = {"type": "text", "text": text}
    content |= {"annotations": list(annotations)} if annotations else {}
    return {"type": "model_output", "content": [content]}
