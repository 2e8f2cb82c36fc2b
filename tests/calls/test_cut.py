"""Results that are too long for the model: cut, and kept whole for whoever wants to page."""

from pathlib import Path
from typing import Literal

import pytest

from tests.calls.runs import Run, run
from toolcrib import Executor, Session, SqliteStore, tool
from toolcrib.errors import UsageError
from toolcrib.session.artifacts import Page
from toolcrib.tools.artifacts import read_artifact

DIGITS = "0123456789"


async def count(
    cut: Literal["head", "tail", "middle"] = "head", session: Session | None = None
) -> Run:
    @tool(max_result_chars=4, cut=cut)
    async def count() -> str:
        """Give ten characters."""
        return DIGITS

    return await run(count, session=session)


class TestCut:
    async def test_the_head_is_kept(self) -> None:
        """By default the model sees the beginning, and how much is missing."""
        ended = await count()

        head, note = ended.outcome.text.split("\n")
        assert head == "0123"
        assert "6 of 10 characters were cut" in note
        assert ended.outcome.artifact_id is not None
        assert ended.outcome.artifact_id in note

    async def test_the_note_names_a_reader_only_where_there_is_one(self) -> None:
        """A model is not sent to a tool that it does not have, nor to one that was taken away."""

        @tool(max_result_chars=4)
        async def count() -> str:
            """Give ten characters."""
            return DIGITS

        executor = Executor(Session(), [count])
        alone = await executor.call("count")
        executor.register(read_artifact)
        helped = await executor.call("count")
        executor.unregister("read_artifact")
        alone_again = await executor.call("count")

        assert alone.text.endswith(f"The whole result is kept as {alone.artifact_id}.]")
        assert helped.text.endswith("; the tool read_artifact pages through it.]")
        assert "read_artifact" not in alone_again.text

    async def test_the_tail_is_kept(self) -> None:
        """Of a log, the end is what matters."""
        note, tail = (await count("tail")).outcome.text.split("\n")

        assert tail == "6789"
        assert "6 of 10" in note

    async def test_both_ends_are_kept(self) -> None:
        """Of a file, both ends may matter."""
        head, note, tail = (await count("middle")).outcome.text.split("\n")

        assert (head, tail) == ("01", "89")
        assert "6 of 10" in note

    async def test_the_application_gets_the_whole_value(self) -> None:
        """Cutting is for the model; the value is whole, and so is the value on record."""
        ended = await count()

        assert ended.outcome.value == DIGITS
        assert ended.record.value == DIGITS
        assert ended.record.message == ended.outcome.text
        assert ended.record.artifact_id == ended.outcome.artifact_id

    async def test_a_result_at_the_limit_is_left_alone(self) -> None:
        """What fits is not cut, and nothing is kept beside it."""

        @tool(max_result_chars=10)
        async def count() -> str:
            """Give ten characters."""
            return DIGITS

        ended = await run(count)

        assert ended.outcome.text == DIGITS
        assert ended.outcome.artifact_id is None

    async def test_a_long_error_is_cut_too(self) -> None:
        """A tool cannot flood the model with an error message either."""

        @tool(max_result_chars=20)
        async def fail() -> str:
            """Fail at length."""
            raise LookupError("x" * 1000)

        ended = await run(fail)

        assert len(ended.outcome.text) < 200
        assert ended.outcome.artifact_id is not None
        whole = ended.session.artifacts.read(ended.outcome.artifact_id).text
        assert whole == "LookupError: " + "x" * 1000


class TestPages:
    async def test_an_artifact_is_read_page_by_page(self) -> None:
        """The whole result can be read in pieces that fit."""
        ended = await count()
        artifacts = ended.session.artifacts
        name = str(ended.outcome.artifact_id)

        assert artifacts.read(name, limit=4) == Page("0123", 0, 10, 4)
        assert artifacts.read(name, offset=9, limit=1) == Page("9", 9, 10, None)
        assert artifacts.read(name, offset=4, limit=4) == Page("4567", 4, 10, 8)
        assert artifacts.read(name, offset=8, limit=4) == Page("89", 8, 10, None)
        assert artifacts.read(name) == Page(DIGITS, 0, 10, None)
        assert artifacts.read(name, offset=99) == Page("", 99, 10, None)

    @pytest.mark.parametrize(("offset", "limit"), [(-1, None), (0, 0), (0, -4)])
    async def test_a_page_that_cannot_be_is_refused(self, offset: int, limit: int | None) -> None:
        """A wrong offset or limit says so instead of giving a wrong piece."""
        ended = await count()

        with pytest.raises(UsageError, match="offset"):
            ended.session.artifacts.read(str(ended.outcome.artifact_id), offset=offset, limit=limit)

    async def test_an_unknown_artifact_is_refused(self) -> None:
        """A wrong name says so."""
        with pytest.raises(UsageError, match="no artifact 'artifact_x'"):
            Session().artifacts.read("artifact_x")

    async def test_an_artifact_outlives_the_process(self, sqlite_path: Path) -> None:
        """In a store, the whole result is there for the next process."""
        store = SqliteStore(sqlite_path)
        session = await Session.open(store, "s")
        ended = await count(session=session)
        await session.close()
        store.close()

        again = SqliteStore(sqlite_path)
        reopened = await Session.open(again, "s")
        assert reopened.artifacts.read(str(ended.outcome.artifact_id)).text == DIGITS
        await reopened.close()
        again.close()

    async def test_deleting_payloads_deletes_artifacts(self) -> None:
        """A whole result is content like any other: it goes when the payloads go."""
        ended = await count()

        await ended.session.delete_payloads("ann")

        with pytest.raises(UsageError, match="deleted"):
            ended.session.artifacts.read(str(ended.outcome.artifact_id))
