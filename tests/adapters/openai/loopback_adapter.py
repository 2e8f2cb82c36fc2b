"""A prompt, an adapter and a provider on the loopback interface: what evaluations are tried on."""

from __future__ import annotations

import ssl
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any, TypeVar

from tests.adapters.openai.scripted_provider import Json, Provider, Reply
from toolcrib import MarkdownSection, Prompt, Session, tool
from toolcrib.adapters.openai import OpenAIAdapter, Retry
from toolcrib.ledger.events import Event
from toolcrib.ledger.record import events

E = TypeVar("E", bound=Event)

QUICK = Retry(first_seconds=0.001)
KEY = "sk-test-0123456789"


@contextmanager
def bench(
    *replies: Json | Reply, retry: Retry = QUICK, **options: Any
) -> Generator[tuple[OpenAIAdapter, Provider]]:
    """An adapter whose provider gives these replies."""
    with Provider(*replies) as provider:
        client = sdk_client(provider.url)
        adapter = OpenAIAdapter(model="test-model", client=client, retry=retry, **options)
        try:
            yield adapter, provider
        finally:
            adapter.close()


def sdk_client(url: str) -> Any:
    """The SDK's own client. Reading the certificates takes it longer than a test may."""
    from httpx2 import AsyncClient
    from openai import AsyncOpenAI

    return AsyncOpenAI(base_url=url, api_key=KEY, http_client=AsyncClient(verify=_certificates()))


@cache
def _certificates() -> ssl.SSLContext:
    return ssl.create_default_context()


def ask(
    *tools: Any, text: str = "What is it?", output: Any = None, hosted: Sequence[Any] = ()
) -> Prompt[Any]:
    """A prompt with these tools."""
    section = MarkdownSection[Any](title="Task", key="task", template=text, tools=[*tools, *hosted])
    return Prompt[Any](ns="test", key="ask", sections=[section], output_type=output)


def happened(session: Session, event_type: type[E]) -> list[E]:
    """The events of one type in a session's ledger."""
    return [event for event in events(session.records()) if isinstance(event, event_type)]


@tool
async def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b
