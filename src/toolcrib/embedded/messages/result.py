"""What a backend reads of the result blocks of server tools.

A block that the provider has just made and one that a client sends back are read alike, so that a
conversation goes on in the same way whoever kept it.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, cast

from toolcrib.embedded.messages.citation import (
    CitedDocument,
    SearchedPage,
    Source,
    unpacked,
)

RESULTS: Final = {
    "web_search": "web_search_tool_result",
    "web_fetch": "web_fetch_tool_result",
    "code_execution": "code_execution_tool_result",
    "bash_code_execution": "bash_code_execution_tool_result",
    "text_editor_code_execution": "text_editor_code_execution_tool_result",
}
"""By the name in a `server_tool_use` block: the type of its result block."""

BACKEND_NAMES: Final = {"code_execution": "python"}
"""The names of server tools that a backend knows by another name."""

MCP_RESULT: Final = "mcp_tool_result"
RESULT_TYPES: Final = frozenset({*RESULTS.values(), MCP_RESULT})


@dataclass(frozen=True, slots=True)
class ReadResult:
    """A result: text for a model, a value for a backend that computes with it, its sources."""

    text: str
    value: Any = None
    sources: Sequence[Source] = ()


def read_result(block: Mapping[str, Any], documents: int = 0) -> ReadResult:
    """Read a result block. `documents` is the number of documents that come before it."""
    content: object = block.get("content")
    if isinstance(content, list) and block.get("type") == "web_search_tool_result":
        return _pages(cast(list[object], content))
    if block.get("type") == MCP_RESULT:
        return _mcp(cast(object, content))
    facts = cast(dict[str, Any], content) if isinstance(content, dict) else {}
    kind = str(facts.get("type", ""))
    if kind.endswith("_error"):
        code = facts.get("error_code")
        message = facts.get("error_message")
        return ReadResult(f"Error: {code}" + (f": {message}" if message else ""))
    if kind == "web_fetch_result":
        return _fetched(facts, documents)
    if kind in ("code_execution_result", "bash_code_execution_result"):
        return _executed(facts)
    shown = {key: value for key, value in facts.items() if key != "type"}
    text = facts.get("content")
    return ReadResult(text if isinstance(text, str) else json.dumps(shown), shown)


def listed(marks: Sequence[str], sources: Sequence[Source]) -> str:
    """The sources of a result with the marks that cite them."""
    lines = [f"[{mark}] {source.name}" for mark, source in zip(marks, sources, strict=True)]
    return "\n\nSources:\n" + "\n".join(lines) if lines else ""


def _pages(content: list[object]) -> ReadResult:
    pages: list[SearchedPage] = []
    for entry in content:
        facts = cast(dict[str, Any], entry) if isinstance(entry, dict) else {}
        url, title = facts.get("url"), facts.get("title")
        if isinstance(url, str):
            text = str(unpacked(facts.get("encrypted_content")).get("text", ""))
            pages.append(SearchedPage(url, str(title or url), text))
    texts = [f"{page.title} ({page.url})\n{page.text}" for page in pages]
    results = [{"url": page.url, "title": page.title, "text": page.text} for page in pages]
    return ReadResult("\n\n".join(texts) or "Nothing was found.", {"results": results}, pages)


def _fetched(facts: Mapping[str, Any], documents: int) -> ReadResult:
    document = cast(dict[str, Any], facts.get("content") or {})
    source = cast(dict[str, Any], document.get("source") or {})
    text, url = str(source.get("data", "")), str(facts.get("url", ""))
    title = str(document.get("title") or url)
    value = {"results": [{"url": url, "title": title, "text": text}]}
    config = document.get("citations")
    is_cited = isinstance(config, dict) and cast(dict[str, Any], config).get("enabled") is True
    sources = [CitedDocument(documents, title, text)] if is_cited else []
    return ReadResult(f"{title} ({url})\n{text}", value, sources)


def _executed(facts: Mapping[str, Any]) -> ReadResult:
    stdout, stderr = str(facts.get("stdout") or ""), str(facts.get("stderr") or "")
    code = facts.get("return_code")
    made: object = facts.get("content") or []
    files = [
        {"file_id": entry.get("file_id")}
        for entry in (cast(list[dict[str, Any]], made) if isinstance(made, list) else [])
    ]
    parts = [stdout + stderr or "(no output)"]
    parts += [f"(exit code: {code})"] if code else []
    if files:
        parts.append("Files were made: " + ", ".join(str(file["file_id"]) for file in files))
    value = {
        "logs": stdout + stderr,
        "stdout": stdout,
        "stderr": stderr,
        "return_code": code,
        "json": _last_json(stdout),
        "succeeded": code == 0,
        "files": files,
    }
    return ReadResult("\n".join(parts), value)


def _mcp(content: object) -> ReadResult:
    if isinstance(content, str):
        text = content
    else:
        parts = cast(list[object], content) if isinstance(content, list) else []
        texts = [cast(dict[str, Any], part).get("text") for part in parts if isinstance(part, dict)]
        text = "\n".join(map(str, texts))
    return ReadResult(text, _parsed(text))


def _last_json(text: str) -> Any:
    lines = text.strip().splitlines()
    return _parsed(lines[-1]) if lines else None


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return None
