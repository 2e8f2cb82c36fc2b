"""How well a local model works with tools: single choices, and whole loops through the provider.

`python scripts/model_test.py [--model NAME|PATH] [--sets FOLDER]`. It fails below the marks that
the default model has to reach. Another folder with the same three files is another examination.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import yaml

from toolcrib.embedded import (
    BackendMessage,
    BackendRequest,
    BackendText,
    BackendTool,
    EmbeddedProvider,
    ModelBackend,
    ProposedCall,
)
from toolcrib.embedded.backends import LlamaBackend
from toolcrib.embedded.model_files import DEFAULT

SETS = Path(__file__).parents[1] / "tests" / "model" / "sets"
CHOICES_NEEDED, LOOPS_NEEDED = 0.85, 8 / 12
MAX_STEPS = 6

Json = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Result:
    """One case: whether it was passed, and what happened."""

    said: str
    is_passed: bool
    what: str


@dataclass(slots=True)
class Loop:
    """What a model did in one loop."""

    answer: str = ""
    right: list[Json] = field(default_factory=list[Json])
    shown: list[str] = field(default_factory=list[str])


def read(folder: Path, name: str) -> Any:
    """One of the three files."""
    return yaml.safe_load((folder / f"{name}.yaml").read_text("utf-8"))


def schema_of(tool: Mapping[str, Any]) -> Json:
    """The parameters of a tool. All are required unless the file says which."""
    properties = cast(Json, tool["properties"])
    return {
        "type": "object",
        "properties": properties,
        "required": list(tool.get("required", properties)),
        "additionalProperties": False,
    }


def fits(given: Any, wanted: Mapping[str, Any]) -> bool:
    """Whether arguments are as a case wants them: texts are contained, anything else is equal."""
    if not isinstance(given, dict):
        return False
    arguments = cast(Json, given)
    return all(_fits(arguments.get(name), value) for name, value in wanted.items())


def _fits(given: Any, wanted: Any) -> bool:
    if isinstance(wanted, str):
        return isinstance(given, str) and wanted.casefold() in given.casefold()
    return type(given) is type(wanted) and given == wanted


async def choose(backend: ModelBackend, tools: Mapping[str, Json], case: Json) -> Result:
    """One step of the backend alone."""
    declarations = [
        BackendTool(name, tools[name]["description"], schema_of(tools[name]))
        for name in case["offers"]
    ]
    request = BackendRequest(
        backend.name, [BackendMessage("user", case["say"])], tools=declarations
    )
    pieces = [piece async for piece in backend.propose(request)]
    calls = [piece for piece in pieces if isinstance(piece, ProposedCall)]
    text = "".join(piece.text for piece in pieces if isinstance(piece, BackendText))
    if case["tool"] is None:
        return Result(case["say"], not calls, repr(calls or text))
    is_right = [call.name for call in calls] == [case["tool"]] and fits(
        json.loads(calls[0].arguments), case.get("arguments", {})
    )
    return Result(case["say"], is_right, repr(calls or text))


async def loop(client: Any, model: str, tools: Mapping[str, Json], case: Json) -> Result:
    """A whole loop with the official client: what is called is answered, until there is text."""
    offered = [_function(name, tools[name]) for name in case["offers"]]
    seen = Loop()
    asked: Any = case["say"]
    previous: str | None = None
    for _ in range(MAX_STEPS):
        response = await client.responses.create(
            model=model, input=asked, tools=offered, previous_response_id=previous
        )
        previous, seen.answer = response.id, response.output_text
        calls = [item for item in response.output if item.type == "function_call"]
        if not calls:
            break
        asked = [_output(call, case, seen) for call in calls]
    what = " -> ".join([*seen.shown, repr(seen.answer)])
    return Result(case["say"], _is_passed(seen, case), what)


def _is_passed(seen: Loop, case: Json) -> bool:
    answer = seen.answer.casefold()
    is_said = all(
        any(text.casefold() in answer for text in ([each] if isinstance(each, str) else each))
        for each in case.get("says", [])
    )
    is_wrong = any(text.casefold() in answer for text in case.get("never", []))
    made_all = all(call in seen.right for call in case["calls"])
    has_strayed = not case["calls"] and bool(seen.shown)
    return bool(answer) and is_said and made_all and not has_strayed and not is_wrong


def _output(call: Any, case: Json, seen: Loop) -> Json:
    seen.shown.append(f"{call.name}({call.arguments})")
    output = "error: nothing was found with these arguments"
    for wanted in case["calls"]:
        if call.name == wanted["tool"] and fits(json.loads(call.arguments), wanted["arguments"]):
            seen.right.append(wanted)
            output = wanted["result"]
    return {"type": "function_call_output", "call_id": call.call_id, "output": output}


def _function(name: str, tool: Json) -> Json:
    described = {"name": name, "description": tool["description"]}
    return {"type": "function", **described, "parameters": schema_of(tool), "strict": False}


def report(title: str, results: Sequence[Result], began: float) -> float:
    """Show how a set went; the share that was passed."""
    passed = sum(each.is_passed for each in results)
    for each in results:
        print(f"  {'ok  ' if each.is_passed else 'FAIL'} {each.said}\n         {each.what}")
    print(f"{title}: {passed} of {len(results)} in {time.monotonic() - began:.0f} s", flush=True)
    return passed / len(results)


async def examine(backend: ModelBackend, folder: Path) -> bool:
    """Both sets. Whether the marks were reached."""
    tools = read(folder, "tools")
    began = time.monotonic()
    choices = [await choose(backend, tools, case) for case in read(folder, "choices")]
    chosen = report(f"{backend.name}: choices", choices, began)
    began = time.monotonic()
    async with EmbeddedProvider(backend) as provider, provider.client() as client:
        loops = [await loop(client, backend.name, tools, case) for case in read(folder, "loops")]
    looped = report(f"{backend.name}: loops", loops, began)
    return chosen >= CHOICES_NEEDED and looped >= LOOPS_NEEDED


def main() -> None:
    """Examine one model."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--model", default=DEFAULT.name)
    parser.add_argument("--sets", type=Path, default=SETS)
    given = parser.parse_args()
    if not asyncio.run(examine(LlamaBackend(given.model), given.sets)):
        sys.exit("the model is below the marks")


if __name__ == "__main__":
    main()
