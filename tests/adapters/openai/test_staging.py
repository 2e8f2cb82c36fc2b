"""Files of the host in a container: uploaded once, recorded, and told to the model."""

from __future__ import annotations

import asyncio
import hashlib
import threading
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from tests.adapters.openai.files_server import Fault, FilesServer, Json, Said, opened
from tests.adapters.openai.loopback_adapter import QUICK, add, ask, happened, sdk_client
from tests.adapters.openai.scripted_provider import call, message, response
from tests.helpers.patience import PATIENCE
from toolcrib import MarkdownSection, Prompt, Session, tool
from toolcrib.adapters.openai import Budget, Governance, OpenAIAdapter, Retry
from toolcrib.approval.decision import Approve
from toolcrib.approval.policy import Policy
from toolcrib.approval.rule import Rule
from toolcrib.errors import PromptEvaluationError, UsageError
from toolcrib.ledger.prompt_events import FilesStaged, ModelResponded, PromptStarted, ToolWithheld
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool, VfsPath
from toolcrib.tools.code_interpreter import AutoContainer, Container, ExistingContainer
from toolcrib.vfs.mount import StagedFile

DONE = response(message("Done."))
DEEP = b"value\n0\n"
CSV = b"value\n1\n2\n\xff\r\n--not a boundary\r\n"


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "data" / "deep").mkdir(parents=True)
    (tmp_path / "data" / "input.csv").write_bytes(CSV)
    (tmp_path / "data" / "deep" / "input.csv").write_bytes(DEEP)
    return tmp_path


@contextmanager
def bench(
    *script: Any, root: Path, retry: Retry = QUICK, **options: Any
) -> Generator[tuple[OpenAIAdapter, FilesServer]]:
    """An adapter that may upload files below `root`, and a server that takes them."""
    chosen: dict[str, Any] = {"host_roots": (root,), **options}
    with FilesServer(*script) as server:
        client = sdk_client(server.url)
        adapter = OpenAIAdapter(model="test-model", client=client, retry=retry, **chosen)
        try:
            yield adapter, server
        finally:
            adapter.close()


def python(container: Container | None = None, mount: HostMount | None = None) -> Any:
    return OpenAICodeInterpreterTool(
        name="python",
        container=container or AutoContainer(),
        host_mounts=(mount or HostMount("data", VfsPath(("workspace",))),),
    )


def parts(body: Json) -> list[str]:
    """The texts of the first message."""
    return [part["text"] for part in body["input"][0]["content"]]


def container_of(body: Json) -> Any:
    (found,) = [each["container"] for each in body["tools"] if each["type"] == "code_interpreter"]
    return found


def test_files_arrive_byte_for_byte(root: Path) -> None:
    """C28: real uploads, for the user's data, under their own names, that the provider forgets."""
    with bench(DONE, root=root) as (adapter, server):
        adapter.evaluate(ask(python()))

    uploads = sorted(server.uploads.values(), key=lambda upload: upload.data)
    assert [(upload.name, upload.data) for upload in uploads] == [
        ("input.csv", DEEP),
        ("input.csv", CSV),
    ]
    assert all(
        upload.fields
        == {
            "purpose": "user_data",
            "expires_after[anchor]": "created_at",
            "expires_after[seconds]": "2592000",
        }
        for upload in uploads
    )


def test_the_container_is_made_with_the_files(root: Path) -> None:
    """C27, P7: ids go into `file_ids`, after those that were given; no mount is on the wire."""
    tool = python(AutoContainer("4g", file_ids=("file-given",)))
    with bench(DONE, root=root) as (adapter, server):
        adapter.evaluate(ask(tool))

    container = container_of(server.asked[0])
    first, *staged = container.pop("file_ids")
    assert container == {"type": "auto", "memory_limit": "4g"}
    assert first == "file-given"
    assert [server.uploads[file_id].data for file_id in staged] == [DEEP, CSV]


def test_the_model_is_told_where_the_files_are(root: Path) -> None:
    """P11: a part after the prompt maps the mount's paths to real ones, and the file is there."""
    seen: list[bytes] = []

    def read(server: FilesServer, body: Json) -> Json:
        note = parts(body)[-1].splitlines()
        container = opened(server, body)
        seen.extend(container.read(line.rpartition(" is at ")[2]) for line in note[1:])
        return DONE

    with bench(read, root=root) as (adapter, server):
        adapter.evaluate(ask(python(), text="Read /workspace/input.csv"))

    texts = parts(server.asked[0])
    assert "Read /workspace/input.csv" in texts[0]
    lines = texts[1].splitlines()
    assert lines[0] == "These files are in the container of python, under other paths:"
    assert [line.partition(" is at /mnt/data/file-")[0] for line in lines[1:]] == [
        "- /workspace/deep/input.csv",
        "- /workspace/input.csv",
    ]
    assert seen == [DEEP, CSV]


def test_an_existing_container_gets_copies(root: Path) -> None:
    """P6: an existing container is a bare id; files are copied into it, and its own paths told."""
    with bench(DONE, root=root) as (adapter, server):
        container = server.container("cntr_mine")
        adapter.evaluate(ask(python(ExistingContainer("cntr_mine"))))

    assert container_of(server.asked[0]) == "cntr_mine"
    paths = [line.rpartition(" is at ")[2] for line in parts(server.asked[0])[1].splitlines()[1:]]
    assert [container.read(path) for path in paths] == [DEEP, CSV]


def test_what_was_staged_is_recorded_without_contents(root: Path) -> None:
    """E9: ids, paths, sizes and digests, after the prompt's start and before its answer."""
    session = Session()
    (root / "data" / "empty.txt").touch()
    with bench(DONE, root=root) as (adapter, _):
        adapter.evaluate(ask(python()), session=session)

    (staged,) = happened(session, FilesStaged)
    assert (staged.tool, staged.turn, staged.container_id) == ("python", 1, None)
    assert staged.empty == ("/workspace/empty.txt",)
    by_name = {file.name: file for file in staged.files}
    file = by_name["/workspace/input.csv"]
    assert file == StagedFile(
        "/workspace/input.csv",
        f"/mnt/data/{file.file_id}-input.csv",
        file.file_id,
        len(CSV),
        hashlib.sha256(CSV).hexdigest(),
    )
    kinds = [record.kind for record in session.records()]
    assert kinds.index("prompt.started") < kinds.index("files.staged")
    assert kinds.index("files.staged") < kinds.index("model.responded")
    assert not any(b"not a boundary" in (record.payload or b"") for record in session.records())


def test_empty_files_are_told_and_not_sent(root: Path) -> None:
    """The provider refuses them, and the model should not look for them in vain."""
    (root / "data" / "empty.txt").touch()
    with bench(DONE, root=root) as (adapter, server):
        adapter.evaluate(ask(python()))

    assert len(server.uploads) == 2
    assert "- /workspace/empty.txt is empty and was not copied" in parts(server.asked[0])[1]


def test_files_are_uploaded_once_for_all_steps(root: Path) -> None:
    """One evaluation, one upload; every request of it has the files."""
    script = (response(call("add", {"a": 1, "b": 2})), DONE)
    with bench(*script, root=root) as (adapter, server):
        adapter.evaluate(ask(python(), add))

    assert server.counted("POST /v1/files") == 2
    first, second = map(container_of, server.asked)
    assert first == second
    assert len(first["file_ids"]) == 2


@tool(requires_approval=True)
async def launch() -> str:
    """Launch it."""
    return "launched"


@pytest.mark.parametrize("history", ["server", "client"])
def test_going_on_uses_what_is_there(root: Path, history: Any) -> None:
    """Resume neither reads the host again nor uploads again, in this process or another."""
    session = Session()
    prompt = ask(python(), launch)
    with bench(response(call("launch")), DONE, root=root, history=history) as (adapter, server):
        waiting = adapter.evaluate(prompt, session=session)
        (root / "data" / "input.csv").unlink()
        moved = Session().with_state(session.export_state())
        approve(moved, waiting.pending[0].approval_id)
        answer = adapter.resume(prompt, session=moved)

    assert answer.text == "Done."
    assert server.counted("POST /v1/files") == 2
    assert container_of(server.asked[0]) == container_of(server.asked[1])
    if history == "client":
        assert parts(server.asked[0]) == parts(server.asked[1])
    assert len(happened(moved, FilesStaged)) == 1


def test_going_on_after_failed_uploads_uploads(root: Path) -> None:
    """A prompt that stopped before its files were there is taken up from there."""
    session = Session()
    prompt = ask(python())
    with bench(DONE, root=root) as (adapter, server):
        server.faults["POST /v1/files"] = [Fault(400, "No.")]
        with pytest.raises(PromptEvaluationError, match=r"HTTP 400: No\."):
            adapter.evaluate(prompt, session=session)
        assert adapter.resume(prompt, session=session).text == "Done."

    assert len(container_of(server.asked[0])["file_ids"]) == 2
    assert len(happened(session, PromptStarted)) == 1


def test_a_new_container_gets_the_same_files(root: Path) -> None:
    """C26: whoever renewed an expired container goes on in the new one, without new uploads."""
    session = Session()
    with bench(response(call("launch")), DONE, root=root) as (adapter, server):
        server.container("cntr_old")
        waiting = adapter.evaluate(
            ask(python(ExistingContainer("cntr_old")), launch), session=session
        )
        server.containers["cntr_old"].status = "expired"
        fresh = server.container("cntr_new")
        approve(session, waiting.pending[0].approval_id)
        adapter.resume(ask(python(ExistingContainer("cntr_new")), launch), session=session)

    assert server.counted("POST /v1/files") == 2
    assert sorted(data for _, data in fresh.files.values()) == [DEEP, CSV]
    old, new = happened(session, FilesStaged)
    assert [file.path for file in old.files] == [file.path for file in new.files]
    assert (old.container_id, new.container_id) == ("cntr_old", "cntr_new")


def test_a_new_container_that_takes_no_files_is_told(root: Path) -> None:
    """C26: bringing files into a container that is gone says so."""
    session = Session()
    with bench(response(call("launch")), root=root) as (adapter, server):
        server.container("cntr_old")
        waiting = adapter.evaluate(
            ask(python(ExistingContainer("cntr_old")), launch), session=session
        )
        server.container("cntr_new").status = "expired"
        approve(session, waiting.pending[0].approval_id)
        with pytest.raises(PromptEvaluationError, match=r"Container is expired\. .*create_contain"):
            adapter.resume(ask(python(ExistingContainer("cntr_new")), launch), session=session)


def approve(session: Session, approval_id: str) -> None:
    asyncio.run(session.approvals.decide(approval_id, Approve(), by="jo"))


def write_more(path: Path) -> None:
    path.write_text("longer" * 20)


def hold(released: threading.Event) -> None:
    released.wait(PATIENCE)


class TestRefused:
    """What cannot be staged is refused before anything is sent (phase render)."""

    def refused(self, root: Path, tool: Any, **options: Any) -> str:
        session = Session()
        with bench(root=root, **options) as (adapter, server):
            with pytest.raises(PromptEvaluationError) as caught:
                adapter.evaluate(ask(tool), session=session)

            assert server.seen == []
        assert caught.value.phase == "render"
        assert happened(session, PromptStarted) == []
        return str(caught.value)

    def test_without_roots_there_are_no_mounts(self, root: Path) -> None:
        """C28: no folder is readable by default, and the error names the option."""
        assert "give the adapter host_roots" in self.refused(root, python(), host_roots=())

    def test_outside_the_roots(self, root: Path) -> None:
        """C28: a mount outside every root is refused."""
        said = self.refused(root, python(), host_roots=(root / "data" / "deep",))
        assert "'data': there is no such file or folder in the allowed roots" in said

    def test_types(self, root: Path) -> None:
        """C30: one file of another type keeps all of them from being uploaded."""
        (root / "data" / "id_rsa").write_text("secret")
        assert "not uploaded: /workspace/id_rsa." in self.refused(root, python())

    def test_other_types_by_choice(self, root: Path) -> None:
        """C30: the adapter's own table counts."""
        assert "/workspace/input.csv" in self.refused(root, python(), upload_types={".txt"})

    def test_too_many(self, root: Path) -> None:
        """C27: the fifty-first file is refused."""
        for number in range(50):
            (root / "data" / f"{number}.txt").write_text("x")
        assert "50 at most" in self.refused(root, python())

    def test_too_large(self, root: Path) -> None:
        """C28: the mount's own budget counts."""
        tool = python(mount=HostMount("data", max_bytes=10))
        assert "max_bytes is 10" in self.refused(root, tool)

    def test_options_are_checked_when_the_adapter_is_made(self) -> None:
        """A plain text for a tuple would allow folders that nobody meant."""
        with pytest.raises(UsageError, match="host_roots must be a tuple"):
            OpenAIAdapter(model="m", host_roots="data")
        with pytest.raises(UsageError, match="upload_types"):
            OpenAIAdapter(model="m", upload_types=["csv"])


def test_nothing_is_uploaded_for_a_tool_that_is_withheld(root: Path) -> None:
    """A tool that policy keeps from the model does not make files leave the host."""
    session = Session()
    governance = Governance(policy=Policy((Rule("deny", tool="python"),)))
    with bench(DONE, root=root) as (adapter, server):
        adapter.evaluate(ask(python()), session=session, governance=governance)

    assert server.seen == ["POST /v1/responses"]
    assert len(happened(session, ToolWithheld)) == 1
    assert len(parts(server.asked[0])) == 1


def test_nothing_is_uploaded_when_another_part_cannot_be_sent(root: Path) -> None:
    """Files do not leave the host for a prompt that cannot be asked."""
    with bench(root=root) as (adapter, server):
        with pytest.raises(PromptEvaluationError, match="tool_choice"):
            adapter.evaluate(ask(python()), tool_choice="nobody")

        assert server.seen == []


def test_without_mounts_nothing_changes(root: Path) -> None:
    """A code interpreter without host files is asked for as ever."""
    with bench(DONE, root=root) as (adapter, server):
        adapter.evaluate(ask(OpenAICodeInterpreterTool(name="python")))

    assert server.seen == ["POST /v1/responses"]
    assert container_of(server.asked[0]) == {"type": "auto", "memory_limit": "1g"}
    assert len(parts(server.asked[0])) == 1


class TestFailedUploads:
    """An upload that fails ends the evaluation (phase request) and leaves nothing behind."""

    def failed(self, root: Path, tool: Any, *faults: Any, **options: Any) -> Any:
        with bench(root=root, retry=Retry(attempts=1)) as (adapter, server):
            server.container("cntr_mine")
            for path, fault in faults:
                server.faults[path] = [fault]
            with pytest.raises(PromptEvaluationError) as caught:
                adapter.evaluate(ask(tool), **options)

            assert server.asked == []
            assert server.uploads == {}
        return caught.value

    def test_a_refusal_is_told_in_the_providers_words(self, root: Path) -> None:
        """C30: which file, what the provider said, and the id to ask it about."""
        error = self.failed(root, python(), ("POST /v1/files", Fault(400, "Bad extension.")))

        assert error.phase == "request"
        assert error.request_id.startswith("req_")
        assert "input.csv' could not be uploaded: HTTP 400" in str(error)
        assert "Bad extension." in str(error)

    def test_what_was_uploaded_is_deleted_again(self, root: Path) -> None:
        """The file that made it does not stay when its sibling did not."""
        tool = python(ExistingContainer("cntr_mine"))
        copy = "POST /v1/containers/cntr_mine/files"

        error = self.failed(root, tool, (copy, Fault(400, "Container is expired.")))

        assert "Container is expired." in str(error)
        assert "The container is gone" in str(error)

    def test_a_delete_that_fails_does_not_hide_the_reason(self, root: Path) -> None:
        """Clearing up is best effort; the provider forgets uploads by itself."""
        tool = python(mount=HostMount("data/input.csv"))
        tool = replace(tool, config=replace(tool.config, container=ExistingContainer("cntr_gone")))
        with bench(root=root, retry=Retry(attempts=1)) as (adapter, server):
            server.container("cntr_gone").status = "expired"
            server.faults["DELETE /v1/files/file-1"] = [Fault(500, "Later.")]
            with pytest.raises(PromptEvaluationError, match="Container is expired"):
                adapter.evaluate(ask(tool))

            assert server.counted("DELETE /v1/files/file-1") == 1

    def test_a_file_written_to_meanwhile_is_not_used(self, root: Path) -> None:
        """What was counted and hashed is what the model gets, or nothing."""
        with bench(root=root) as (adapter, server):
            server.during = lambda _: write_more(root / "data" / "input.csv")
            with pytest.raises(
                PromptEvaluationError, match=r"changed (meanwhile|after it was found)"
            ):
                adapter.evaluate(ask(python(mount=HostMount("data/input.csv"))))

            assert (server.asked, server.uploads) == ([], {})

    def test_uploading_ends_with_the_budget(self, root: Path) -> None:
        """A deadline holds for uploads too (phase budget)."""
        released = threading.Event()
        with bench(root=root) as (adapter, server):
            server.during = lambda _: hold(released)
            with pytest.raises(PromptEvaluationError, match="the time ran out") as caught:
                adapter.evaluate(ask(python()), budget=Budget(seconds=0.2))
            released.set()

        assert caught.value.phase == "budget"

    def test_the_rest_is_not_begun_after_a_failure(self, root: Path) -> None:
        """What is on its way ends; what waits stays on the host."""
        for number in range(20):
            (root / "data" / f"{number}.txt").write_text("x")
        with bench(root=root) as (adapter, server):
            server.faults["POST /v1/files"] = [Fault(400, "No.")] * 22
            with pytest.raises(PromptEvaluationError, match=r"HTTP 400: No\."):
                adapter.evaluate(ask(python()))

            assert 1 <= server.counted("POST /v1/files") <= 4

    @pytest.mark.parametrize("reply", [{}, {"id": ""}, {"id": 7}, []])
    def test_a_reply_without_an_id_is_no_upload(self, root: Path, reply: Any) -> None:
        """What the provider does not name cannot be used."""
        with bench(root=root) as (adapter, server):
            server.faults["POST /v1/files"] = [Said(reply)]
            with pytest.raises(
                PromptEvaluationError, match="could not be uploaded: the provider's"
            ):
                adapter.evaluate(ask(python(mount=HostMount("data/input.csv"))))

    def test_two_files_in_one_place_are_noticed(self, root: Path) -> None:
        """A provider that puts one file over another is not trusted with either."""
        with bench(root=root) as (adapter, server):
            server.container("cntr_mine")
            place = Said({"id": "cfile_1", "path": "/mnt/data/input.csv"})
            server.faults["POST /v1/containers/cntr_mine/files"] = [place, place]
            with pytest.raises(PromptEvaluationError, match=r"in one place, /mnt/data/input\.csv"):
                adapter.evaluate(ask(python(ExistingContainer("cntr_mine"))))

            assert server.uploads == {}


def test_a_passing_fault_is_tried_again(root: Path) -> None:
    """A rate limit or a server's bad moment does not end the evaluation."""
    with bench(DONE, root=root) as (adapter, server):
        server.faults["POST /v1/files"] = [Fault(500, "Again."), Fault(429, "Slow down.")]
        adapter.evaluate(ask(python()))

    assert server.counted("POST /v1/files") == 4
    assert sorted(upload.data for upload in server.uploads.values()) == [DEEP, CSV]


def test_a_prompt_with_several_sections_is_told_once(root: Path) -> None:
    """The note stands after the whole prompt, attachments included."""
    prompt = Prompt[Any](
        ns="test",
        key="two",
        sections=[
            MarkdownSection[Any](title="One", key="one", template="First.", tools=[python()]),
            MarkdownSection[Any](title="Two", key="two", template="Second."),
        ],
    )
    session = Session()
    with bench(DONE, root=root) as (adapter, server):
        adapter.evaluate(prompt, session=session)

    assert len(parts(server.asked[0])) == 2
    assert len(happened(session, ModelResponded)) == 1
