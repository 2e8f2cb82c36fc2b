"""Everything that happens while a prompt is answered, printed as it happens.

Needs no key and no network: a scenario stands in for a model, and the embedded provider really runs
the code that it writes. Put `OpenAIAdapter(model="gpt-5-mini")` or
`PydanticAIAdapter("anthropic:claude-sonnet-4-5")` in the adapter's place; nothing else changes.
"""

from __future__ import annotations

import asyncio
import sys

from toolcrib import (
    ArgumentsDelta,
    Event,
    HostedToolProgress,
    MarkdownSection,
    Prompt,
    PromptResponse,
    ReasoningDelta,
    TextDelta,
    ToolContext,
    ToolInvoked,
    ToolProgress,
    tool,
)
from toolcrib.embedded import EmbeddedProvider
from toolcrib.embedded.backends import ScriptedBackend, read_scenario
from toolcrib.tools.code_interpreter import code_interpreter_tool

SCENARIO = """
name: clerk
turns:
  - steps:
      - think: "I need the readings first, then their mean."
        calls: [{tool: readings, arguments: {meter: A-17}, as: read}]
      - calls: [{tool: python, arguments: {code: "print(sum([4, 8, 15]) / 3)"}, as: mean}]
      - say: "The mean of meter A-17 is {{ mean.logs }}"
"""


@tool
async def readings(meter: str, context: ToolContext) -> list[int]:
    """Read a meter."""
    context.progress(3, 3, "readings")
    return [4, 8, 15]


def show(event: Event) -> None:
    """Print what a person would want to see of an event."""
    match event:
        case TextDelta(text=text):
            print(text, end="")
        case ReasoningDelta(text=text):
            print(f"[thinks] {text}")
        case ArgumentsDelta(tool=name, text=text) if text:
            print(f"[{name}] the model writes {text}")
        case ToolProgress(tool=name, current=current, message=message):
            print(f"[{name}] {current:g} {message}")
        case HostedToolProgress(tool=name, code=str(code)):
            print(f"[{name}] runs {code}")
        case HostedToolProgress(tool=name, output=str(output)):
            print(f"[{name}] printed {output.rstrip()}")
        case ToolInvoked(name=name, success=success):
            print(f"[{name}] is over, {'well' if success else 'badly'}")
        case _:
            pass


async def main() -> int:
    prompt = Prompt[str](
        ns="desk",
        key="mean",
        sections=[
            MarkdownSection(
                title="Task",
                key="task",
                template="What is the mean of meter A-17?",
                tools=[readings],
                hosted_tools=(code_interpreter_tool(),),
            )
        ],
    )
    async with EmbeddedProvider(ScriptedBackend(read_scenario(SCENARIO))).adapter() as adapter:
        async for item in adapter.stream(prompt):
            if isinstance(item, PromptResponse):
                print(f"\n{item.usage.requests} requests, {len(item.invocations)} hosted call")
            else:
                show(item)
    return 0


if __name__ == "__main__":
    sys.exit(asyncio.run(main()))
