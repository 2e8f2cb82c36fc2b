"""The same story on several providers, told in items that they really sent."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import cache

from tests.adapters.openai.response_samples import RECORDINGS
from tests.adapters.openai.scripted_provider import response
from tests.adapters.pydantic_ai.handwritten_scripts import message
from tests.adapters.pydantic_ai.recordings import recorded
from tests.adapters.pydantic_ai.wire.traffic import Json
from toolcrib.adapters.items import mapping_of, mappings_of, text_of

ADDED = {"a": 1, "b": 2}
"""What our own tool is asked in every story."""

Test = Callable[[Json], object]


@cache
def _bodies(provider: str) -> list[Json]:
    paths = sorted((RECORDINGS / provider).glob("*.json"))
    return [each.body for path in paths for each in recorded(path) if each.provider == provider]


def _first(bodies: Sequence[Json], *tests: Test) -> Json:
    return next(body for body in bodies if all(test(body) for test in tests))


def openai() -> list[Json]:
    """OpenAI: items of their own, calls with their results in them."""
    paths = sorted((RECORDINGS / "openai").glob("*.json"))
    bodies = [each.body for path in paths for each in recorded(path)]
    outputs = [mappings_of(body, "output") for body in bodies]
    searched = next(each for each in outputs if _cites(each) and _of(each, "web_search_call"))
    runs = [found for each in outputs for found in _of(each, "code_interpreter_call")]
    ran = next(each for each in runs if each.get("outputs"))
    asked = next(found for each in outputs for found in _of(each, "function_call"))
    ours = {**asked, "name": "add", "arguments": json.dumps(ADDED), "namespace": None}
    return [response(ours), response(ran, *searched)]


def _of(items: Sequence[Json], kind: str) -> list[Json]:
    return [each for each in items if each.get("type") == kind]


def _cites(items: Sequence[Json]) -> bool:
    parts = [part for item in items for part in mappings_of(item, "content")]
    notes = [note for part in parts for note in mappings_of(part, "annotations")]
    return any(note.get("type") == "url_citation" for note in notes)


def anthropic() -> list[Json]:
    """Anthropic: blocks of one message, results as blocks of their own."""
    bodies = _bodies("anthropic")
    searched = _first(bodies, lambda body: any(map(_is_quote, mappings_of(body, "content"))))
    ran = _first(bodies, lambda body: list(_runs(body)))
    asked = next(
        block for body in bodies for block in mappings_of(body, "content") if _is_ours(block)
    )
    ours = {"type": "tool_use", "id": asked["id"], "name": "add", "input": ADDED}
    blocks = [*_runs(ran), *mappings_of(searched, "content")]
    return [message(ours, stop="tool_use"), message(*blocks)]


def _is_quote(block: Json) -> bool:
    return any(note.get("url") for note in mappings_of(block, "citations"))


def _is_ours(block: Json) -> bool:
    return block.get("type") == "tool_use"


def _runs(body: Json) -> Iterator[Json]:
    """The first run of code in a message: its call and its result."""
    blocks = mappings_of(body, "content")
    for block in blocks:
        results = [each for each in blocks if each.get("tool_use_id") == block.get("id")]
        is_code = block.get("name") in ("code_execution", "bash_code_execution")
        if is_code and results and text_of(mapping_of(results[0], "content"), "stdout"):
            yield from (block, results[0])
            return


def google() -> list[Json]:
    """Gemini: parts of one candidate, and what they are grounded on beside them."""
    bodies = _bodies("google")
    searched = _first(bodies, _is_grounded)
    ran = _first(bodies, lambda body: any("executableCode" in part for part in _parts(body)))
    code = [part for part in _parts(ran) if part.keys() & {"executableCode", "codeExecutionResult"}]
    ours = {"functionCall": {"name": "add", "args": ADDED, "id": "call_1"}}
    (candidate,) = mappings_of(searched, "candidates")
    parts = [*code[:2], *_parts(searched)]
    # A place names its part by number, and two parts now come before it.
    moved = json.loads(json.dumps(candidate))
    for support in mappings_of(mapping_of(moved, "groundingMetadata"), "groundingSupports"):
        support["segment"]["partIndex"] = support["segment"].get("partIndex", 0) + 2
    whole = {**moved, "content": {"role": "model", "parts": parts}}
    first = {"content": {"role": "model", "parts": [ours]}, "finishReason": "STOP"}
    return [{**searched, "candidates": [first]}, {**searched, "candidates": [whole]}]


def _parts(body: Json) -> list[Json]:
    candidates = mappings_of(body, "candidates")
    return [
        part for each in candidates for part in mappings_of(mapping_of(each, "content"), "parts")
    ]


def _is_grounded(body: Json) -> bool:
    (candidate,) = mappings_of(body, "candidates")
    grounding = mapping_of(candidate, "groundingMetadata")
    is_plain = not any("toolCall" in part for part in _parts(body))
    is_cited = grounding.get("groundingSupports") and grounding.get("webSearchQueries")
    return is_plain and bool(is_cited)
