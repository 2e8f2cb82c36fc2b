"""A research assistant: answers from pages that you saved, and says where each sentence is from.

It searches the folder `pages`, which stands for a site, and nothing else. Without arguments a
written scenario asks the questions, so that it needs no model; with a chat endpoint a model does:

    python examples/research_assistant/run.py --base-url http://127.0.0.1:11434/v1 --model qwen3
"""

from __future__ import annotations

import argparse
import asyncio
from dataclasses import dataclass
from pathlib import Path

from toolcrib import MarkdownSection, Prompt
from toolcrib.embedded import EmbeddedProvider, ModelBackend
from toolcrib.embedded.backends import ChatBackend, ScriptedBackend
from toolcrib.embedded.web import WebFolder
from toolcrib.tools.web_search import WebSearchResult, web_search_tool

HERE = Path(__file__).parent
QUESTION = "We own a house of 1962. What should we do first, the roof or the heating?"


@dataclass(frozen=True)
class Note:
    """A place in the answer and the page that it is from."""

    number: int
    title: str
    url: str


async def research(backend: ModelBackend, pages: Path, question: str) -> tuple[str, list[Note]]:
    """The answer with numbers in place of links, and what the numbers stand for."""
    web = WebFolder(pages, "https://homes.example")
    async with EmbeddedProvider(backend, web=[web]) as provider:
        adapter = provider.adapter()
        task = MarkdownSection(
            title="Task", key="task", template="$question Cite.", tools=[web_search_tool()]
        )
        prompt = Prompt(ns="homes", key="research", sections=[task]).bind(question=question)
        answer = await adapter.evaluate_async(prompt)
    search = answer.hosted_outputs["web_search"]
    assert isinstance(search, WebSearchResult)
    return footnotes(answer.text, search)


def footnotes(text: str, search: WebSearchResult) -> tuple[str, list[Note]]:
    """Every cited span replaced by the number of its page."""
    notes: dict[str, Note] = {}
    pieces: list[str] = []
    last = 0
    for citation in search.citations:
        if citation.span is None:
            continue
        note = notes.setdefault(citation.url, Note(len(notes) + 1, citation.title, citation.url))
        start, end = citation.span
        pieces += [text[last:start], f"[{note.number}]"]
        last = end
    return "".join([*pieces, text[last:]]).strip(), list(notes.values())


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--base-url")
    parser.add_argument("--model", default="qwen3")
    parser.add_argument("--pages", type=Path, default=HERE / "pages")
    options = parser.parse_args()
    backend: ModelBackend = ScriptedBackend.from_file(HERE / "scenario.yaml")
    if options.base_url:
        backend = ChatBackend(options.model, base_url=options.base_url)
    text, notes = asyncio.run(research(backend, options.pages, QUESTION))
    print(text)
    for note in notes:
        print(f"[{note.number}] {note.title}: {note.url}")


if __name__ == "__main__":
    main()
