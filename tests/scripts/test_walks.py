"""The walks of docs/architecture.md stay short enough to follow."""

from __future__ import annotations

import asyncio

import pytest

from scripts import walks

pytestmark = pytest.mark.wire


@pytest.mark.parametrize(
    ("name", "files", "functions"),
    [("call", 15, 40), ("prompt", 80, 440), ("http", 51, 210), ("code", 45, 300)],
)
def test_a_walk_is_short(name: str, files: int, functions: int) -> None:
    """A reader who follows one request opens this many files and functions at most."""
    walk = asyncio.run(walks.WALKS[name]())

    assert 5 < len(walk.files) <= files
    assert 10 < walk.named_functions <= functions


def test_a_prompt_reaches_the_wire_soon() -> None:
    """At most 52 files lie between a prompt and its first byte on the wire."""
    walk = asyncio.run(walks.WALKS["prompt"]())

    assert walk.files_before_first_byte is not None
    assert walk.files_before_first_byte <= 52
