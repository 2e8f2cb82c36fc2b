"""Ids of calls, which come from models and clients."""

from __future__ import annotations

import pytest

from toolcrib import Executor, Session, tool
from toolcrib.errors import UsageError


@tool
async def ping() -> str:
    """Answer."""
    return "pong"


@pytest.mark.parametrize("call_id", ["", "a\nb", "\ud800", "x" * 257, "a\x00b"])
async def test_an_id_that_no_store_takes_is_refused_before_anything_is_recorded(
    call_id: str,
) -> None:
    """A hostile call id is refused at once, and the next call is not harmed by it."""
    session = Session()
    executor = Executor(session, [ping])

    with pytest.raises(UsageError, match="printable characters"):
        await executor.call("ping", call_id=call_id)

    assert [record.kind for record in session.records()] == ["session.opened"]
    assert (await executor.call("ping", call_id="é 漢字 ok")).ok
