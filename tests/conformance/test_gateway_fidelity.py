"""The reference servers answer through the gateway as they do directly, item for item.

Every request is made twice, and every message is compared. What differs is listed here with its
reason; a difference that is not listed fails, and so does one that is gone.
"""

from __future__ import annotations

import json
import shutil
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mcp_types as types
import pytest
import yaml

from tests.conformance.inspector import over_stdio
from tests.conformance.recorded_client import (
    Json,
    Step,
    call,
    differences,
    record,
    unexplained,
)
from tests.node.peers import MODULES, command, needs_node

pytestmark = [pytest.mark.slow, pytest.mark.wire, needs_node]

PIXEL = bytes.fromhex("89504e470d0a1a0a") + b"pixel"
LISTS = (
    Step("tools/list", types.ListToolsRequest()),
    Step("resources/list", types.ListResourcesRequest()),
    Step("resources/templates/list", types.ListResourceTemplatesRequest()),
    Step("prompts/list", types.ListPromptsRequest()),
)
EVERYWHERE: Mapping[str, str] = {
    "/tools/list/tools/*/_meta": "the gateway adds the identity of the tool in its own key",
    "/tools/list/tools/*/inputSchema/$schema": "schemas are translated to the current draft",
    "/tools/call */_meta": "the gateway adds the call id in its own key",
}
READS: Mapping[str, str] = {
    "/resources/read */_meta": "as for calls: a read is one",
}
NO_PROMPTS: Mapping[str, str] = {
    "/prompts/list/*": "the gateway has prompts; of this server it has none",
}
WITH_OUTPUT: Mapping[str, str] = {
    "/tools/list/tools/*/outputSchema/$schema": "schemas are translated to the current draft",
}
"""The differences of every server."""


def read(uri: str) -> Step:
    params = types.ReadResourceRequestParams(uri=uri)
    return Step(f"resources/read {uri}", types.ReadResourceRequest(params=params))


def prompt(name: str, /, **arguments: str) -> Step:
    params = types.GetPromptRequestParams(name=name, arguments=arguments)
    return Step(f"prompts/get {name}", types.GetPromptRequest(params=params))


def completion(prompt: str, argument: str, value: str) -> Step:
    params = types.CompleteRequestParams(
        ref=types.PromptReference(type="ref/prompt", name=prompt),
        argument=types.CompletionArgument(name=argument, value=value),
    )
    return Step(f"completion/complete {prompt}", types.CompleteRequest(params=params))


@dataclass(frozen=True)
class Peer:
    """A server, what is asked of it, and why the answers differ."""

    package: str
    args: tuple[str, ...]
    steps: tuple[Step, ...]
    reasons: Mapping[str, str]
    inspected: tuple[str, Json]
    """A tool and its arguments, for the Inspector."""
    env: Mapping[str, str] = field(default_factory=dict[str, str])

    @property
    def command(self) -> list[str]:
        index = MODULES / "@modelcontextprotocol" / self.package / "dist" / "index.js"
        return [command("node"), str(index), *self.args]


DOCUMENTS = (
    "architecture",
    "extension",
    "features",
    "how-it-works",
    "instructions",
    "startup",
    "structure",
)


def everything(folder: Path) -> Peer:
    steps = (
        call("echo", message="hello"),
        call("get-annotated-message", messageType="error", includeImage=True),
        call("get-env"),
        call("get-resource-links", count=2),
        call("get-resource-reference", resourceType="Text", resourceId=1),
        call("get-structured-content", location="Chicago"),
        call("get-sum", a=2, b=40),
        call("get-tiny-image"),
        call("gzip-file-as-resource", name="x.gz", data="data:text/plain,hello"),
        call("toggle-simulated-logging"),
        call("toggle-subscriber-updates"),
        call("trigger-long-running-operation", duration=0.2, steps=2),
        call("get-roots-list"),
        call("trigger-elicitation-request"),
        call("trigger-url-elicitation", url="https://example.org/x", elicitationId="e1"),
        replace(
            call("trigger-url-elicitation", url="https://example.org/y", errorPath=True),
            name="tools/call trigger-url-elicitation first",
        ),
        call("trigger-sampling-request", prompt="hello"),
        call("simulate-research-query", topic="tools"),
        *(read(f"demo://resource/static/document/{name}.md") for name in DOCUMENTS),
        read("demo://resource/dynamic/text/1"),
        prompt("simple-prompt"),
        prompt("args-prompt", city="Paris"),
        prompt("completable-prompt", department="Engineering", name="Alice"),
        prompt("resource-prompt", resourceType="Text", resourceId="1"),
        completion("completable-prompt", "department", "Eng"),
    )
    return Peer("server-everything", ("stdio",), steps, EVERYTHING, ("get-tiny-image", {}))


def filesystem(folder: Path) -> Peer:
    text, picture = str(folder / "a.txt"), str(folder / "pixel.png")
    steps = (
        call("read_file", path=text),
        call("read_text_file", path=text, head=1),
        call("read_media_file", path=picture),
        call("read_multiple_files", paths=[text, str(folder / "none")]),
        call("write_file", path=str(folder / "b.txt"), content="written"),
        call("edit_file", path=text, edits=[{"oldText": "one", "newText": "two"}]),
        call("create_directory", path=str(folder / "sub")),
        call("list_directory", path=str(folder)),
        call("list_directory_with_sizes", path=str(folder)),
        call("directory_tree", path=str(folder)),
        call("move_file", source=text, destination=str(folder / "sub" / "a.txt")),
        call("search_files", path=str(folder), pattern="**/*.txt"),
        call("get_file_info", path=picture),
        call("list_allowed_directories"),
    )
    inspected = ("read_media_file", {"path": picture})
    return Peer("server-filesystem", (str(folder),), steps, FILESYSTEM, inspected)


def memory(folder: Path) -> Peer:
    ada: Json = {"name": "Ada", "entityType": "person", "observations": ["counts"]}
    bob: Json = {"name": "Bob", "entityType": "person", "observations": []}
    knows: Json = {"from": "Ada", "to": "Bob", "relationType": "knows"}
    more: Json = {"entityName": "Ada", "contents": ["writes"]}
    less: Json = {"entityName": "Ada", "observations": ["counts"]}
    steps = (
        call("create_entities", entities=[ada, bob]),
        call("create_relations", relations=[knows]),
        call("add_observations", observations=[more]),
        call("read_graph"),
        call("search_nodes", query="Ada"),
        call("open_nodes", names=["Bob"]),
        read("memory://knowledge-graph"),
        call("delete_observations", deletions=[less]),
        call("delete_relations", relations=[knows]),
        call("delete_entities", entityNames=["Bob"]),
    )
    env = {"MEMORY_FILE_PATH": str(folder / "memory.jsonl")}
    return Peer("server-memory", (), steps, MEMORY, ("read_graph", {}), env)


EVERYTHING: Mapping[str, str] = {
    **EVERYWHERE,
    **WITH_OUTPUT,
    **READS,
    "/prompts/get */_meta": "as for calls",
    "/notifications/notifications/resources/list_changed/*/_meta": "an empty object for none",
    "/tools/list/tools/simulate-research-query/execution/taskSupport": "the gateway runs the task",
    "/tools/call simulate-research-query/content/0/text": "the gateway runs the task; without one "
    "the server refuses the call",
    "/tools/call simulate-research-query/isError": "as above",
    "/tools/call get-env/content/0/text": "a mounted program gets few variables of ours",
    "/tools/call trigger-url-elicitation first/error/data/elicitations/0/elicitationId": "it is "
    "another each time",
    "/requests/*/message": "the person reads which server asks",
    "/requests/0/mode": "the gateway names the mode, which is the default",
    "/tools/call trigger-elicitation-request/content/[12]/text": "the gateway fills in the "
    "defaults of a form, as the protocol asks of clients (SEP-1034)",
    "/notifications/notifications/tools/list_changed": "the server is complete before the client "
    "of the gateway connects",
    "/notifications/notifications/progress/[2-9]": "the status messages of the task",
}
FILESYSTEM: Mapping[str, str] = {
    **EVERYWHERE,
    **WITH_OUTPUT,
    **NO_PROMPTS,
    "/resources/list/*": "the gateway has resources; of this server it has none",
    "/resources/templates/list/*": "as above",
}
MEMORY: Mapping[str, str] = {**EVERYWHERE, **WITH_OUTPUT, **READS, **NO_PROMPTS}


INSPECTED: Mapping[str, str] = {
    "/tools/list/tools/trigger-*": "the server offers them to clients that can answer, as the "
    "gateway can for some of its clients",
    "/tools/list/tools/get-roots-list": "as above",
}


def fresh(folder: Path) -> Path:
    """The files that both runs begin with."""
    data = folder / "data"
    shutil.rmtree(data, ignore_errors=True)
    data.mkdir()
    (data / "a.txt").write_text("one\ntwo\n")
    (data / "pixel.png").write_bytes(PIXEL)
    return data


def gateway(folder: Path, peer: Peer, data: Path) -> list[str]:
    """The command of a gateway that mounts the server without a prefix."""
    program, *args = peer.command
    entry: Json = {
        "command": program,
        "args": args,
        "env": dict(peer.env),
        "prefix": "",
        "approval": "policy",
        "sampling": "allow",
        "roots": [data.as_uri()],
    }
    policy: Json = {"version": 1, "rules": [{"id": "all", "allow": "*", "source": "mcp:peer"}]}
    (folder / "gateway.yaml").write_text(yaml.safe_dump({"mcp_servers": {"peer": entry}}))
    (folder / "policy.yaml").write_text(yaml.safe_dump(policy))
    toolcrib = str(Path(sys.executable).with_name("toolcrib"))
    tools, rules = str(folder / "gateway.yaml"), str(folder / "policy.yaml")
    return [toolcrib, "mcp", "--host-tools", tools, "--policy", rules]


def assert_explained(direct: Any, through: Any, reasons: Mapping[str, str]) -> None:
    without, vanished = unexplained(differences(direct, through), reasons)
    assert without == {}, json.dumps(without, indent=1)[:20_000]
    assert vanished == []


@pytest.mark.parametrize("make", [everything, filesystem, memory])
async def test_every_answer_is_the_same_or_listed(make: Any, tmp_path: Path) -> None:
    """Tools, resources, templates, prompts, completions, requests in the middle of a call, and
    notifications: all that the server says to the official SDK's client.
    """
    data = fresh(tmp_path)
    peer: Peer = make(data)
    steps: Sequence[Step] = (*LISTS, *peer.steps)
    direct = await record(peer.command, peer.env, steps, [data])
    data = fresh(tmp_path)
    through = await record(gateway(tmp_path, peer, data), {}, steps, [data])

    offered = {
        *(f"tools/call {tool['name']}" for tool in direct["tools/list"]["tools"]),
        *(
            f"resources/read {each['uri']}"
            for each in direct["resources/list"].get("resources", ())
        ),
        *(f"prompts/get {each['name']}" for each in direct["prompts/list"].get("prompts", ())),
    }
    assert offered <= direct.keys(), "everything that is offered is asked for"
    assert_explained(direct, through, peer.reasons)


@pytest.mark.parametrize("make", [everything, filesystem])
async def test_the_inspector_shows_the_same(make: Any, tmp_path: Path) -> None:
    """The command line that people try servers with: the list of one server, and the picture of
    the other, which it refuses when structured content is missing.
    """
    data = fresh(tmp_path)
    peer: Peer = make(data)
    tool, arguments = peer.inspected
    shown: list[Any] = []
    for program, *args in (peer.command, gateway(tmp_path, peer, data)):
        inspector = over_stdio(tmp_path, program, args)
        if make is everything:
            step, seen = "tools/list", await inspector.run("legacy", "tools/list")
        else:
            step, seen = f"tools/call {tool}", await inspector.call("legacy", tool, **arguments)
        assert seen.status == 0, seen.stderr
        shown.append({step: seen.result})

    found = differences(*shown)
    without, _ = unexplained(found, {**peer.reasons, **INSPECTED})
    assert found != {}
    assert without == {}, json.dumps(without, indent=1)[:20_000]
