"""How a provider's failures are told."""

from typing import Any

import pytest

from toolcrib.adapters.codec import failure_of


@pytest.mark.parametrize(
    ("item", "told"),
    [
        ({"status": "failed"}, "x_call failed"),
        ({"status": "incomplete"}, "x_call incomplete"),
        ({"status": "cancelled"}, "x_call cancelled"),
        ({"status": "failed", "error": "timed out"}, "x_call failed: timed out"),
        (
            {"status": "failed", "error": {"code": "rate_limit", "message": "slow down"}},
            "x_call failed: rate_limit: slow down",
        ),
        ({"status": "failed", "error": {"type": "http_error"}}, "x_call failed: http_error"),
        ({"error": {"code": 404, "message": "gone"}}, "x_call failed: 404: gone"),
    ],
)
def test_a_failure_names_status_code_and_message(item: dict[str, Any], told: str) -> None:
    """N17, E5: what the provider says of a failure is passed on, its code first."""
    assert failure_of({"type": "x_call", **item}) == told


@pytest.mark.parametrize("status", ["completed", "searching", "never_seen", None, ["failed"], 3])
def test_nothing_else_is_a_failure(status: Any) -> None:
    """E4: statuses are open, and may be missing."""
    assert failure_of({"type": "x_call", "status": status, "error": None}) is None


def test_an_error_counts_whatever_the_status_says() -> None:
    """N17: a call that completed with an error did not succeed."""
    item = {"type": "x_call", "status": "completed", "error": {"message": "no such tool"}}

    assert failure_of(item) == "x_call failed: no such tool"
