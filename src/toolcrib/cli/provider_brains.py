"""Who answers behind `toolcrib provider`, and where it searches, as its options say it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from toolcrib.cli.extras import need
from toolcrib.errors import UsageError

if TYPE_CHECKING:
    from toolcrib.local.brain import Brain
    from toolcrib.local.web.source import WebSource


@dataclass(frozen=True, slots=True)
class AskedBrain:
    """What the options say of the brain."""

    brain: str
    base_url: str | None = None
    model: str | None = None
    api_key_env: str | None = None


def brain_of(asked: AskedBrain) -> Brain:
    """The brain that is asked for. Raises `UsageError`."""
    kind, _, rest = asked.brain.partition(":")
    match kind:
        case "scripted" if rest:
            from toolcrib.local.brains.scripted.brain import ScriptedBrain

            return ScriptedBrain.from_file(rest)
        case "local":
            need("local", "--brain local")
            from toolcrib.local.brains.local.brain import LocalBrain

            return LocalBrain(rest) if rest else LocalBrain()
        case "chat":
            return _chat(asked)
        case _:
            raise UsageError(
                f"--brain {asked.brain[:80]!r} is none: write scripted:FILE, local[:MODEL], or "
                "chat with --base-url and --model"
            )


def _chat(asked: AskedBrain) -> Brain:
    from toolcrib.local.brains.chat import ChatBrain

    if asked.base_url is None or asked.model is None:
        raise UsageError("--brain chat needs --base-url and --model")
    key = "none"
    if asked.api_key_env is not None:
        key = os.environ.get(asked.api_key_env, "")
        if not key:
            raise UsageError(f"--api-key-env: {asked.api_key_env[:80]} is not set")
    return ChatBrain(asked.model, base_url=asked.base_url, api_key=key)


def web_of(folders: Sequence[str], searxng: str | None) -> list[WebSource]:
    """Where web search looks. Raises `UsageError`."""
    from toolcrib.local.web.folder import WebFolder
    from toolcrib.local.web.searxng import Searxng

    found: list[WebSource] = []
    for each in folders:
        folder, _, url = each.partition("=")
        if not url or not Path(folder).is_dir():
            raise UsageError(f"--web {each[:80]!r}: write FOLDER=URL with a folder that is there")
        found.append(WebFolder(folder, url))
    if searxng is not None:
        found.append(Searxng(searxng))
    return found
