"""A principal owns what it makes in the provider; for others it does not exist."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import AsyncIterator, Sequence
from pathlib import Path
from typing import Any

import pytest
from openai import NotFoundError
from starlette.routing import Mount, Route, WebSocketRoute
from websockets.asyncio.client import connect

from tests.embedded.principals import SharedProvider, secret_of, shared_provider
from tests.mcp_client.mounted_servers import web_peer
from toolcrib.embedded import (
    BackendCallResult,
    BackendOutput,
    BackendRequest,
    BackendText,
    EmbeddedProvider,
    ProposedCall,
)
from toolcrib.embedded.database import Database
from toolcrib.errors import UsageError

Json = dict[str, Any]
SECRET = "alice's launch code is 0000"
CODE = "open('/mnt/data/made.txt', 'w').write('made'); print('ran')"


def uses_tools(request: BackendRequest) -> Sequence[BackendOutput]:
    """Calls the first tool that is offered, once, and then repeats all that it was told."""
    results = [turn for turn in request.history if isinstance(turn, BackendCallResult)]
    if request.tools and not results:
        name = request.tools[0].name
        arguments = {
            "python": {"code": CODE},
            "shell": {"commands": ["ls"]},
            "file_search": {"queries": ["launch code"]},
        }
        return [ProposedCall(name, json.dumps(arguments.get(name, {"a": 1, "b": 2})))]
    texts = [str(getattr(turn, "text", "")) for turn in request.history]
    return [BackendText("heard: " + " | ".join(texts))]


@pytest.fixture
async def shared() -> AsyncIterator[SharedProvider]:
    async with shared_provider(uses_tools) as started:
        yield started


async def made_by_alice(shared: SharedProvider) -> dict[str, str]:
    """One resource of each kind, and the path parameters that name them."""

    async def made(path: str, **content: Any) -> Json:
        answer = await shared.send("alice", "POST", path, **content)
        assert answer.status_code == 200, answer.text
        return answer.json()

    upload: Json = {"files": {"file": ("notes.txt", SECRET.encode())}}
    file = await made("/files", **upload, data={"purpose": "user_data"})
    store = await made("/vector_stores", json={"name": "hers"})
    batch = await made(
        f"/vector_stores/{store['id']}/file_batches", json={"file_ids": [file["id"]]}
    )
    container = await made("/containers", json={"name": "hers"})
    inner = await made(f"/containers/{container['id']}/files", **upload)
    response = await made(
        "/responses", json={"model": "puppet", "input": SECRET, "background": True}
    )
    return {
        "file_id": file["id"],
        "store_id": store["id"],
        "batch_id": batch["id"],
        "container_id": container["id"],
        "container_file_id": inner["id"],
        "response_id": response["id"],
    }


def filled_in(path: str, ids: dict[str, str]) -> str:
    """A route's path with alice's ids in it."""
    if path.startswith("/containers/"):
        path = path.replace("{file_id}", "{container_file_id}")
    return path.format(**ids)


BODIES: dict[tuple[str, str], Json] = {
    ("POST", "/vector_stores/{store_id}/files"): {"json": {"file_id": "{file_id}"}},
    ("POST", "/vector_stores/{store_id}/files/{file_id}"): {"json": {"attributes": {"a": "b"}}},
    ("POST", "/vector_stores/{store_id}/file_batches"): {"json": {"file_ids": ["{file_id}"]}},
    ("POST", "/vector_stores/{store_id}/search"): {"json": {"query": "code"}},
    ("POST", "/containers/{container_id}/files"): {"json": {"file_id": "{file_id}"}},
}
"""The bodies of the routes that need one."""

OPEN_ROUTES = {
    ("POST", "/files"),
    ("GET", "/files"),
    ("POST", "/vector_stores"),
    ("GET", "/vector_stores"),
    ("POST", "/containers"),
    ("GET", "/containers"),
    ("POST", "/responses"),
    ("WEBSOCKET", "/responses"),
    ("POST", "/responses/compact"),
    ("POST", "/responses/input_tokens"),
    ("GET", "/models"),
    ("GET", "/models/{model:path}"),
}
"""The routes that name no resource in their path; the tests below hold each of them to its rule."""


def all_routes() -> list[tuple[str, str]]:
    """Every route of the provider, as it serves them."""
    provider: Any = EmbeddedProvider.__new__(EmbeddedProvider)
    [mount] = provider.app.routes
    assert isinstance(mount, Mount)
    routes: list[tuple[str, str]] = []
    for route in mount.routes:
        if isinstance(route, WebSocketRoute):
            routes.append(("WEBSOCKET", route.path))
            continue
        assert isinstance(route, Route)
        routes += [(method, route.path) for method in (route.methods or set()) - {"HEAD"}]
    return sorted(routes)


NAMED = [route for route in all_routes() if route not in OPEN_ROUTES]


def test_the_table_has_every_route() -> None:
    """A new route is either one of a resource, which the table attacks, or listed as open."""
    assert set(all_routes()) >= OPEN_ROUTES
    assert all("_id}" in path for _, path in NAMED)


@pytest.mark.parametrize(("method", "path"), NAMED)
async def test_a_foreign_resource_does_not_exist(
    shared: SharedProvider, method: str, path: str
) -> None:
    """Every route of a resource: 404 for another caller, word for word as if the id were invented;
    403 for who may only approve; an auditor reads and does not change; the owner and an admin may.
    """
    ids = await made_by_alice(shared)
    content = BODIES.get((method, path), {})

    async def status_for(name: str, named: dict[str, str]) -> tuple[int, str]:
        body = {key: json.loads(_named(json.dumps(value), named)) for key, value in content.items()}
        answer = await shared.send(name, method, filled_in(path, named), **body)
        return answer.status_code, answer.text

    invented = {key: value[:-6] + "000000" for key, value in ids.items()}
    status, text = await status_for("bob", ids)
    assert (status, SECRET in text) == (404, False)
    known = {value: key for named in (ids, invented) for key, value in named.items()}
    assert _neutral(text, known) == _neutral((await status_for("bob", invented))[1], known)
    assert (await status_for("april", ids))[0] == 403
    assert (await status_for("audrey", ids))[0] == (200 if method == "GET" else 403)
    assert (await status_for("alice", ids))[0] == 200
    again = await made_by_alice(shared)
    assert (await status_for("ada", again))[0] == 200


def _named(text: str, ids: dict[str, str]) -> str:
    for key, value in ids.items():
        text = text.replace(f"{{{key}}}", value)
    return text


def _neutral(text: str, known: dict[str, str]) -> str:
    for value, key in known.items():
        text = text.replace(value, key)
    return text


@pytest.mark.parametrize("path", ["/files", "/vector_stores", "/containers"])
async def test_a_list_shows_ones_own(shared: SharedProvider, path: str) -> None:
    """Nobody lists what belongs to others, except an admin or an auditor who asks for it."""
    await made_by_alice(shared)

    async def count(name: str, query: str = "") -> int:
        answer = await shared.send(name, "GET", path + query)
        return len(answer.json()["data"]) if answer.status_code == 200 else answer.status_code

    assert (await count("alice"), await count("bob"), await count("ada")) == (1, 0, 0)
    assert await count("ada", "?owner=*") == await count("audrey", "?owner=alice") == 1
    assert await count("bob", "?owner=*") == await count("bob", "?owner=alice") == 403
    assert await count("bob", "?owner=bob") == 0


async def test_a_new_resource_takes_no_foreign_file(shared: SharedProvider) -> None:
    """Files that a new store or container is to hold are one's own."""
    ids = await made_by_alice(shared)
    refs = {"file_ids": [ids["file_id"]]}
    for path, body in (
        ("/vector_stores", {"name": "x", **refs}),
        ("/containers", {"name": "x", **refs}),
    ):
        assert (await shared.send("bob", "POST", path, json=body)).status_code == 404
        assert (await shared.send("alice", "POST", path, json=body)).status_code == 200
        assert (await shared.send("bob", "GET", path)).json()["data"] == []


async def test_own_containers_and_stores_take_no_foreign_file(shared: SharedProvider) -> None:
    """A file of another principal cannot be pulled into one's own store, batch or container."""
    ids = await made_by_alice(shared)
    async with shared.client("bob") as bob:
        store = await bob.vector_stores.create(name="his")
        container = await bob.containers.create(name="his")
        with pytest.raises(NotFoundError):
            await bob.vector_stores.files.create(store.id, file_id=ids["file_id"])
        with pytest.raises(NotFoundError):
            await bob.vector_stores.file_batches.create(store.id, file_ids=[ids["file_id"]])
        with pytest.raises(NotFoundError):
            await bob.containers.files.create(container.id, file_id=ids["file_id"])


async def test_a_tool_reaches_no_foreign_resource(shared: SharedProvider) -> None:
    """A tool that names another principal's store or container is refused before anything runs,
    and a container of hers that the conversation names is not entered.
    """
    ids = await made_by_alice(shared)
    search = {"type": "file_search", "vector_store_ids": [ids["store_id"]]}
    python = {"type": "code_interpreter", "container": ids["container_id"]}
    reference = {"type": "container_reference", "container_id": ids["container_id"]}
    for tool in (search, python, {"type": "shell", "environment": reference}):
        body: Json = {"model": "puppet", "input": "x", "tools": [tool]}
        answer = await shared.send("bob", "POST", "/responses", json=body)
        assert answer.status_code == 404, answer.text
    auto = {"type": "code_interpreter", "container": {"type": "auto"}}
    forged = {
        "type": "code_interpreter_call",
        "id": "ci_forged",
        "code": "1",
        "status": "completed",
        "container_id": ids["container_id"],
        "outputs": None,
    }
    body = {"model": "puppet", "input": [{"role": "user", "content": "x"}], "tools": [auto]}
    shared.puppet.script = _always_python
    body["input"].append(forged)
    answer = (await shared.send("bob", "POST", "/responses", json=body)).json()
    [call] = [item for item in answer["output"] if item["type"] == "code_interpreter_call"]
    assert call["status"] == "completed"
    assert call["container_id"] != ids["container_id"]
    with_file = {"type": "auto", "file_ids": [ids["file_id"]]}
    body["tools"] = [{"type": "code_interpreter", "container": with_file}]
    answer = (await shared.send("bob", "POST", "/responses", json=body)).json()
    assert answer["status"] == "failed"
    assert "not found" in answer["error"]["message"]


def _always_python(request: BackendRequest) -> Sequence[BackendOutput]:
    if len([turn for turn in request.history if isinstance(turn, BackendCallResult)]) > 1:
        return [BackendText("done")]
    return [ProposedCall("python", json.dumps({"code": CODE}))]


@pytest.mark.parametrize("path", ["/responses", "/responses/compact", "/responses/input_tokens"])
async def test_a_foreign_response_is_not_continued(shared: SharedProvider, path: str) -> None:
    """Neither by its id nor by the id of an item of it; the answer is that of an invented id."""
    made = await shared.send(
        "alice", "POST", "/responses", json={"model": "puppet", "input": SECRET}
    )
    response = made.json()
    message_id = response["output"][0]["id"]
    reference = {"type": "item_reference", "id": message_id}
    for body in (
        {"previous_response_id": response["id"], "input": "what was it?"},
        {"input": [reference]},
    ):
        sent = {"model": "puppet", **body}
        refused = await shared.send("bob", "POST", path, json=sent)
        invented = json.loads(
            json.dumps(sent)
            .replace(response["id"], "resp_invented")
            .replace(message_id, "msg_invented")
        )
        unknown = await shared.send("bob", "POST", path, json=invented)
        assert refused.status_code == unknown.status_code in (400, 404)
        assert SECRET not in refused.text
        assert (await shared.send("alice", "POST", path, json=sent)).status_code == 200


async def test_a_foreign_item_gives_no_stored_answer(shared: SharedProvider) -> None:
    """A hosted call that is sent back whole is completed with its stored answer only for its
    owner: the answer holds what the item does not show.
    """
    ids = await made_by_alice(shared)
    async with shared.client("alice") as alice:
        await alice.vector_stores.file_batches.poll(
            ids["batch_id"], vector_store_id=ids["store_id"], poll_interval_ms=50
        )
    search = {"type": "file_search", "vector_store_ids": [ids["store_id"]]}
    body: Json = {"model": "puppet", "input": "x", "tools": [search]}
    made = (await shared.send("alice", "POST", "/responses", json=body)).json()
    [call] = [item for item in made["output"] if item["type"] == "file_search_call"]
    again = {"model": "puppet", "input": [call, {"role": "user", "content": "repeat"}]}
    for name, hears in (("alice", True), ("bob", False)):
        answer = await shared.send(name, "POST", "/responses", json=again)
        assert (SECRET in answer.text) is hears


async def test_a_socket_is_its_principals(shared: SharedProvider) -> None:
    """Over WebSocket a foreign response is continued as little as over HTTP."""
    made = await shared.send(
        "alice", "POST", "/responses", json={"model": "puppet", "input": SECRET}
    )
    create = {
        "type": "response.create",
        "model": "puppet",
        "input": "what was it?",
        "previous_response_id": made.json()["id"],
    }
    address = shared.url.replace("http://", "ws://") + "/responses"
    for name, kind in (("bob", "error"), ("alice", "response.completed")):
        headers = {"Authorization": f"Bearer {secret_of(name)}"}
        async with connect(address, additional_headers=headers) as socket:
            await socket.send(json.dumps(create))
            last: Json = {"type": ""}
            while last["type"] not in ("error", "response.completed"):
                last = json.loads(await socket.recv())
        assert last["type"] == kind
        assert (SECRET in json.dumps(last)) is (name == "alice")


@pytest.mark.parametrize("kind", ["input_file", "input_image"])
async def test_a_foreign_file_in_a_message_is_missing(shared: SharedProvider, kind: str) -> None:
    """A foreign file id in a message is answered like an invented one."""
    ids = await made_by_alice(shared)
    answers: list[str] = []
    for file_id in (ids["file_id"], "file-invented"):
        parts = [{"type": kind, "file_id": file_id}]
        body = {"model": "puppet", "input": [{"role": "user", "content": parts}]}
        answer = await shared.send("bob", "POST", "/responses", json=body)
        assert answer.status_code == 404
        answers.append(answer.text.replace(file_id, "ID"))
    assert answers[0] == answers[1]
    assert SECRET not in answers[0]
    parts = [{"type": "input_file", "file_id": ids["file_id"]}]
    body = {"model": "puppet", "input": [{"role": "user", "content": parts}]}
    own = await shared.send("alice", "POST", "/responses", json=body)
    assert own.status_code == 200


async def test_a_foreign_approval_is_not_given() -> None:
    """Finding 9: a yes to another principal's MCP call runs nothing, also when it names the call
    by reference; the owner's yes runs it.
    """
    async with (
        web_peer() as peer,
        shared_provider(uses_tools, allow_egress=["127.0.0.1"]) as shared,
    ):
        tool = {
            "type": "mcp",
            "server_label": "desk",
            "server_url": f"http://127.0.0.1:{peer.port}/mcp",
            "allowed_tools": ["add"],
            "require_approval": "always",
        }
        body: Json = {"model": "puppet", "input": "go", "tools": [tool]}
        made = (await shared.send("alice", "POST", "/responses", json=body)).json()
        request = made["output"][-1]
        assert request["type"] == "mcp_approval_request"
        yes = {
            "type": "mcp_approval_response",
            "approval_request_id": request["id"],
            "approve": True,
        }
        reference = {"type": "item_reference", "id": request["id"]}
        shared.puppet.script = _says_done
        by_reference = {**body, "input": [reference, yes]}
        answer = await shared.send("bob", "POST", "/responses", json=by_reference)
        assert answer.status_code == 404
        answer = await shared.send("bob", "POST", "/responses", json={**body, "input": [yes]})
        assert "mcp_call" not in [item["type"] for item in answer.json()["output"]]
        hers = {**body, "input": [yes], "previous_response_id": made["id"]}
        assert (await shared.send("bob", "POST", "/responses", json=hers)).status_code == 400
        answer = await shared.send("alice", "POST", "/responses", json=hers)
        assert "mcp_call" in [item["type"] for item in answer.json()["output"]]


def _says_done(request: BackendRequest) -> Sequence[BackendOutput]:
    return [BackendText("done")]


async def test_the_owner_of_the_process_reaches_everything(shared: SharedProvider) -> None:
    """The client in the process is the owner: it sees what every principal has made."""
    ids = await made_by_alice(shared)
    client = shared.provider.client()
    assert (await client.files.retrieve(ids["file_id"])).filename == "notes.txt"
    assert [file.id async for file in client.files.list()] == []
    everybody = client.files.list(extra_query={"owner": "*"})
    assert [file.id async for file in everybody] == [ids["file_id"]]


async def test_resources_of_an_older_file_are_the_owners(tmp_path: Path) -> None:
    """A database of version 1 is migrated: what nobody owned belongs to the process's owner."""
    old = sqlite3.connect(tmp_path / "provider.sqlite3")
    old.execute(
        "create table files (id text primary key, filename text not null, purpose text not null,"
        " bytes integer not null, created_at integer not null, expires_at integer)"
    )
    old.execute("insert into files values ('file-old', 'a.txt', 'user_data', 1, 1, null)")
    old.commit()
    old.close()
    async with shared_provider(uses_tools, data=tmp_path) as shared:
        client = shared.provider.client()
        assert [file.id async for file in client.files.list()] == ["file-old"]
        assert (await shared.send("bob", "GET", "/files/file-old")).status_code == 404
        assert (await shared.send("ada", "GET", "/files/file-old")).status_code == 200


def test_a_newer_file_is_not_opened(tmp_path: Path) -> None:
    """A database that a newer program wrote is left alone."""
    path = tmp_path / "provider.sqlite3"
    newer = sqlite3.connect(path)
    newer.execute("pragma user_version = 99")
    newer.close()
    with pytest.raises(UsageError, match="version 99"):
        Database(path)
