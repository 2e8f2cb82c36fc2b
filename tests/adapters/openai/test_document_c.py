"""The usage example of the code interpreter's document, end to end, as far as it can be true.

Corrected where the provider's real interface differs: mounts are uploaded and not sent, the model
is told real paths, the patterns include the file that the prompt reads, results are typed, and
generated files are fetched by the calls that exist, under names that are made safe.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, cast

import pytest

from tests.adapters.openai.files_server import (
    FilesServer,
    Json,
    Upload,
    citation,
    code_call,
    opened,
)
from tests.adapters.openai.loopback_adapter import KEY, happened, sdk_client
from tests.adapters.openai.scripted_provider import message, response
from toolcrib import MarkdownSection, Prompt, Session
from toolcrib.adapters.openai import OpenAIAdapter, download_files_blocking
from toolcrib.ledger.events import ToolInvoked
from toolcrib.tools import HostMount, OpenAICodeInterpreterTool, ToolContext, ToolResult, VfsPath
from toolcrib.tools.code_interpreter import CodeInterpreterResult

PICTURE = b"\x89PNG\r\n\x1a\n" + bytes(range(256))


@pytest.fixture
def allowed(tmp_path: Path) -> Path:
    """The allowed root, with the folder that the document mounts."""
    sunfish = tmp_path / "roots" / "sunfish"
    for name, text in {
        "data/input.csv": "value\n1\n2\n6\n",
        "sunfish.py": "print('hello')\n",
        "README.md": "# Sunfish\n",
        "__pycache__/sunfish.cpython-311.pyc": "compiled",
        "engine.bin": "not asked for",
    }.items():
        (sunfish / name).parent.mkdir(parents=True, exist_ok=True)
        (sunfish / name).write_text(text)
    return tmp_path / "roots"


def _to_openai_mount(mount: HostMount) -> dict[str, object]:
    """The document's own helper: a mount as a dict."""
    mount_path = "/" + "/".join(mount.mount_path.segments) if mount.mount_path else "/"
    return {
        "host_path": mount.host_path,
        "mount_path": mount_path,
        "include_glob": list(mount.include_glob),
        "exclude_glob": list(mount.exclude_glob),
        "max_bytes": mount.max_bytes,
        "follow_symlinks": mount.follow_symlinks,
    }


def identity_provider_output(
    result: CodeInterpreterResult, context: ToolContext
) -> ToolResult[CodeInterpreterResult]:
    """Pass through provider output while preserving structure."""
    assert context.session is not None
    return ToolResult(message=result.render(), value=result, success=True)


def model(server: FilesServer, body: Json) -> Json:
    """Does what the prompt asks, with the paths it was told and the files that are really there."""
    told = body["input"][0]["content"][-1]["text"].splitlines()
    paths = dict(line.removeprefix("- ").split(" is at ") for line in told[1:])
    container = opened(server, body)
    lines = container.read(paths["/workspace/sunfish/data/input.csv"]).decode().split()
    values = [float(line) for line in lines[1:]]
    picture = container.write("histogram.png", PICTURE)
    text = "The mean is 3. [histogram](sandbox:/mnt/data/histogram.png)"
    cited = citation(container, picture, "../../histogram.png", (15, len(text)))
    return response(
        {"type": "reasoning", "id": "rs_1", "summary": []},
        code_call(container, "print(mean)", f"{sum(values) / len(values)}\n"),
        message(text, cited),
    )


def test_the_documents_example(allowed: Path, tmp_path: Path) -> None:
    """C34: a mount that is reused, a pass-through hook, and generated files on the disk."""
    host_mount = HostMount(
        host_path="sunfish",
        mount_path=VfsPath(("workspace", "sunfish")),
        include_glob=("*.py", "*.md", "*.txt", "*.csv"),
        exclude_glob=("**/__pycache__/**",),
        max_bytes=600_000,
    )
    code_interpreter_tool = OpenAICodeInterpreterTool(
        name="openai_python",
        description="Executes model-authored Python in a sandboxed container.",
        container={
            "type": "auto",
            "memory_limit": "4g",
            "file_ids": ["file_csv_upload"],
            "host_mounts": [_to_openai_mount(host_mount)],
        },
        handle_provider_output=identity_provider_output,
    )
    prompt = Prompt[Any](
        ns="demo",
        key="histogram",
        sections=[
            MarkdownSection[Any](
                title="Task",
                key="task",
                template=(
                    "Load /workspace/sunfish/data/input.csv, calculate the mean of the `value` "
                    "column, and generate a histogram PNG."
                ),
                tools=[code_interpreter_tool],
            )
        ],
    )
    session = Session()

    with FilesServer(model) as server:
        server.uploads["file_csv_upload"] = Upload("earlier.csv", b"x", {})
        adapter = OpenAIAdapter(
            model="gpt-4.1", client=sdk_client(server.url), host_roots=(allowed,)
        )
        answer = adapter.evaluate(prompt, session=session, tool_choice="openai_python")
        adapter.close()
        result: CodeInterpreterResult = answer.hosted_outputs["openai_python"]
        with blocking_client(server.url) as client:
            saved = download_files_blocking(client, result.files, tmp_path / "out")

    check_request(server)
    assert answer.text.startswith("The mean is 3.")
    assert (result.stdout, result.exit_code) == ("3.0\n", None)
    assert [path.name for path in saved] == ["histogram.png"]
    assert saved[0].read_bytes() == PICTURE
    assert saved[0].parent == tmp_path / "out"
    check_invocation(session, result)


def dict_provider_output(
    result: dict[str, object], context: ToolContext
) -> ToolResult[dict[str, object]]:
    """Pass through provider output while preserving structure, as the document prints it."""
    return ToolResult(
        message=str(result.get("output_text") or result.get("message") or ""),
        value=result,
        success=True,
    )


def simple_model(server: FilesServer, body: Json) -> Json:
    """Runs one line, whatever it is asked."""
    return response(code_call(opened(server, body), "print(3)", "3\n"), message("The mean is 3."))


def test_the_documents_dict_hook_raw_call_and_blocking_client(allowed: Path) -> None:
    """C10, C34, X12: as printed, the hook reads its result like a dict, the tool's container goes
    into a request of the SDK's own, and the adapter takes the same blocking client.
    """
    mount = HostMount(host_path="sunfish", include_glob=("*.py", "*.md", "*.txt"))
    tool = OpenAICodeInterpreterTool(
        name="openai_python",
        description="Executes model-authored Python in a sandboxed container.",
        container={
            "type": "auto",
            "memory_limit": "4g",
            "file_ids": ["file_csv_upload"],
            "host_mounts": [_to_openai_mount(mount)],
        },
        handle_provider_output=cast("Any", dict_provider_output),
    )
    section = MarkdownSection[Any](title="Task", key="task", template="Do it.", tools=[tool])
    prompt = Prompt[str](ns="demo", key="mean", sections=[section])
    session = Session()
    container_config: Any = tool.container

    with FilesServer(simple_model, simple_model) as server, blocking_client(server.url) as client:
        server.uploads["file_csv_upload"] = Upload("earlier.csv", b"x", {})
        raw = client.responses.create(
            model="gpt-4.1",
            tools=[{"type": "code_interpreter", "container": container_config}],
            tool_choice="required",
            input="Load /workspace/sunfish/data/input.csv.",
        )
        adapter = OpenAIAdapter(model="gpt-4.1", client=client, host_roots=(allowed,))
        answer = adapter.evaluate(prompt, session=session, tool_choice="required")
        adapter.close()

    assert raw.output_text == answer.text == "The mean is 3."
    sent = [body["tools"][0]["container"] for body in server.asked]
    assert sent[0] == {"type": "auto", "memory_limit": "4g", "file_ids": ["file_csv_upload"]}
    assert sent[1]["file_ids"][0] == "file_csv_upload"
    assert len(sent[1]["file_ids"]) == 3
    ((_, invocation),) = answer.invocations
    assert (invocation.success, invocation.error) == (True, None)
    assert invocation.value == answer.output_of(tool)
    assert invocation.value.stdout == "3\n"
    (invoked,) = happened(session, ToolInvoked)
    assert (invoked.success, invoked.message) == (True, "3\n")


def check_request(server: FilesServer) -> None:
    """P6, P7, P11, P15: one real request, in the provider's own words."""
    (body,) = server.asked
    (tool,) = body["tools"]
    assert tool["type"] == "code_interpreter"
    assert tool["container"].keys() == {"type", "memory_limit", "file_ids"}
    assert tool["container"]["file_ids"][0] == "file_csv_upload"
    assert body["tool_choice"] == {"type": "code_interpreter"}
    assert "code_interpreter_call.outputs" in body["include"]
    assert "host_mounts" not in json.dumps(body)
    names = sorted(upload.name for upload in server.uploads.values())
    assert names == ["README.md", "earlier.csv", "input.csv", "sunfish.py"]


def check_invocation(session: Session, result: CodeInterpreterResult) -> None:
    """C17, C29: the hook's result is the record: the printed text, and the files' identifiers."""
    (invoked,) = happened(session, ToolInvoked)
    assert (invoked.name, invoked.message, invoked.success) == ("openai_python", "3.0\n", True)
    (file,) = invoked.value["files"]
    assert file["container_id"] == result.container_id
    assert file["file_id"].startswith("cfile_")


def blocking_client(url: str) -> Any:
    from httpx2 import Client
    from openai import OpenAI

    return OpenAI(base_url=url, api_key=KEY, http_client=Client(verify=False))
