"""A model from its publisher's address, going on after a cut."""

from __future__ import annotations

import urllib.error
import urllib.request
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final

from toolcrib.errors import PullFailed
from toolcrib.local.model.catalog import ModelFile

_PIECE: Final = 1024 * 1024
_REACH_SECONDS: Final = 10.0
_TRIES: Final = 3
_NOTHING_MORE: Final = 416

Told = Callable[[int, str], None]
"""Hears how many bytes are there, and where they come from."""


def from_publisher(model: ModelFile, folder: Path, told: Told) -> Path:
    """Fetch what is missing of the file. Raises `OSError` when the publisher does not answer, and
    `PullFailed` when it stops answering on the way.
    """
    partial = folder / f"{model.filename}.partial"
    for _ in range(_TRIES):
        _go_on(model, partial, told)
        if _size(partial) >= model.bytes:
            return partial
    raise PullFailed(
        f"{model.name}: the publisher cut the transfer off at {_size(partial):,} of "
        f"{model.bytes:,} bytes; they are kept, so run it again to go on"
    )


def _go_on(model: ModelFile, partial: Path, told: Told) -> None:
    have = _size(partial)
    request = urllib.request.Request(model.url, headers={"Range": f"bytes={have}-"})
    try:
        answer = urllib.request.urlopen(request, timeout=_REACH_SECONDS)
    except urllib.error.HTTPError as error:
        if error.code != _NOTHING_MORE or not have:
            raise
        # There is more here than the publisher has, or all of it: the digest will tell.
        return
    with answer:
        _append(answer, partial, model, told, goes_on=_goes_on(answer, have))


def _append(answer: Any, partial: Path, model: ModelFile, told: Told, *, goes_on: bool) -> None:
    with partial.open("ab" if goes_on else "wb") as file:
        try:
            while file.tell() <= model.bytes and (piece := answer.read(_PIECE)):
                file.write(piece)
                told(file.tell(), "the publisher")
        except (OSError, HTTPException):
            # What came is kept, and asked to be gone on with.
            return


def _goes_on(answer: Any, have: int) -> bool:
    """Whether what comes belongs right behind what is here."""
    given = str(answer.headers.get("Content-Range", ""))
    return answer.status == 206 and given.startswith(f"bytes {have}-")


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
