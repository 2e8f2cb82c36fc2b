"""A data analyst: finds the week in which the boiler was left on, in a year of meter readings.

The code runs for real, in a sandbox. Without arguments a written scenario says what to run, so that
it needs no model; with a chat endpoint a model of yours does:

    python examples/data_analyst/run.py --base-url http://127.0.0.1:11434/v1 --model qwen3
"""

from __future__ import annotations

import argparse
import asyncio
import tempfile
from dataclasses import dataclass
from pathlib import Path

from toolcrib import MarkdownSection, Prompt, Session
from toolcrib.adapters.openai import OpenAIAdapter, download_files
from toolcrib.embedded import EmbeddedProvider, ModelBackend
from toolcrib.embedded.backends import ChatBackend, ScriptedBackend
from toolcrib.tools.code_interpreter import (
    AutoContainer,
    CodeInterpreterConfig,
    CodeInterpreterResult,
    code_interpreter_tool,
)

HERE = Path(__file__).parent


@dataclass
class Report:
    usual_kwh_per_week: float
    unusual_weeks: list[str]
    summary: str


async def analyse(backend: ModelBackend, readings: Path, folder: Path) -> Report:
    """Have the readings analysed, and save what the code made in a folder."""
    async with EmbeddedProvider(backend) as provider:
        client = provider.client()
        uploaded = await client.files.create(file=readings, purpose="user_data")
        container = AutoContainer(file_ids=(uploaded.id,))
        task = MarkdownSection(
            title="Task",
            key="task",
            template="Find the weeks in which far more power was used than usual. Draw a chart.",
            tools=[code_interpreter_tool(CodeInterpreterConfig(container=container))],
        )
        prompt = Prompt[Report](ns="energy", key="unusual", sections=[task])
        session = Session()
        adapter = OpenAIAdapter(model=backend.name, client=client)
        answer = await adapter.evaluate_async(prompt, session=session)
        ran = answer.hosted_outputs["code_interpreter"]
        assert isinstance(ran, CodeInterpreterResult)
        for path in await download_files(client, ran.files, folder):
            print(f"   saved {Path(path).name}")
    session.verify()
    assert answer.output is not None
    return answer.output


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url")
    parser.add_argument("--model", default="qwen3")
    parser.add_argument("--readings", type=Path, default=HERE / "readings.csv")
    options = parser.parse_args()
    backend: ModelBackend = ScriptedBackend.from_file(HERE / "scenario.yaml")
    if options.base_url:
        backend = ChatBackend(options.model, base_url=options.base_url)
    folder = Path(tempfile.mkdtemp(prefix="analyst-"))
    report = asyncio.run(analyse(backend, options.readings, folder))
    print(f"   a usual week: {report.usual_kwh_per_week} kWh")
    print(f"   unusual weeks: {', '.join(report.unusual_weeks) or 'none'}")
    print(f"   {report.summary}")


if __name__ == "__main__":
    main()
