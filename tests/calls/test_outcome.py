"""What a call came to, for whoever asked."""

import pytest

from toolcrib import ApprovalRequired, CallFailed, Executor, Failure, Outcome, Session, tool
from toolcrib.calls.outcome import Status

DENIED = Failure("denied", "Not today.")


def outcome(status: Status, failure: Failure | None = None, value: object = None) -> Outcome:
    return Outcome("c1", "add", status, "text", value, failure)


class TestUnwrap:
    def test_a_completed_call_gives_its_value(self) -> None:
        """The value, also when it is nothing."""
        assert outcome("completed", value=3).unwrap() == 3
        assert outcome("completed").unwrap() is None

    def test_a_failed_call_raises_its_failure(self) -> None:
        """Who asked for exceptions gets one that carries the failure."""
        with pytest.raises(CallFailed, match="denied: Not today") as raised:
            outcome("failed", DENIED).unwrap()

        assert raised.value.failure is DENIED

    def test_a_waiting_call_raises_that_it_waits(self) -> None:
        """T38: a call that waits is not a failure; it says so by its own exception."""
        with pytest.raises(ApprovalRequired):
            outcome("waiting").unwrap()


async def test_a_call_that_waits_says_for_what() -> None:
    """T38: the outcome of a waiting call has the request, and a text that names it."""

    @tool(requires_approval=True)
    async def erase() -> str:
        """Erase."""
        raise AssertionError("nobody allowed this")

    session = Session()
    waiting = await Executor(session, [erase]).call("erase", call_id="c1")

    assert (waiting.call_id, waiting.tool, waiting.status) == ("c1", "erase", "waiting")
    (request,) = session.approvals.pending()
    assert waiting.approval == request
    assert waiting.text == f"`erase` waits for approval ({request.approval_id})."
    with pytest.raises(ApprovalRequired) as raised:
        waiting.unwrap()
    assert raised.value.request == request


class TestViews:
    @pytest.mark.parametrize(
        ("status", "is_ok"), [("completed", True), ("failed", False), ("waiting", False)]
    )
    def test_only_a_completed_call_is_ok(self, status: Status, is_ok: bool) -> None:
        """Waiting is not success."""
        assert outcome(status, DENIED).ok is is_ok

    def test_a_failure_is_a_tool_result_without_success(self) -> None:
        """R17: the outcome as a `ToolResult`."""
        result = outcome("failed", DENIED).result

        assert not result.success
        assert result.error == "text"

    def test_metadata_is_nobodys_to_change(self) -> None:
        """Outcomes without metadata share an empty one that cannot be written to."""
        first, second = outcome("completed"), outcome("completed")

        with pytest.raises(TypeError):
            first.metadata["x"] = 1  # pyright: ignore[reportIndexIssue]
        assert second.metadata == {}
