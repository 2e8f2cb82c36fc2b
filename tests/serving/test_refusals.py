"""How refusals are told."""

from __future__ import annotations

import logging
from typing import get_args

import pytest

from toolcrib.errors import RefusalKind, Refused
from toolcrib.serving.refusals import REFUSALS, as_refused


def test_every_kind_has_a_code_of_its_own_and_a_status() -> None:
    """No kind of refusal is told as another one, and none as a success."""
    assert set(REFUSALS) == set(get_args(RefusalKind))
    assert len({told.code for told in REFUSALS.values()}) == len(REFUSALS)
    assert all(400 <= told.status < 600 for told in REFUSALS.values())


def test_a_refusal_is_told_as_it_is() -> None:
    """What was refused on purpose keeps its kind and its facts."""
    refused = Refused("busy", "wait", {"turn": 3})

    assert as_refused(refused, "prompt.send") is refused


def test_an_unforeseen_error_is_logged_and_told_without_its_text(
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Nothing of an exception reaches the client; the log has all of it."""
    with caplog.at_level(logging.ERROR):
        told = as_refused(RuntimeError("password is hunter2"), "tools.call")

    assert told.kind == "internal"
    assert "hunter2" not in told.message
    assert "hunter2" in caplog.text
