"""`toolcrib doctor`: what is there, what is wrong, and nothing that is secret."""

import json
import os
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.cli.command import invoke
from toolcrib.store import SqliteStore

pytestmark = pytest.mark.usefixtures("folder")


def look(*options: str | Path, status: int = 0) -> dict[str, Any]:
    """What the doctor found, by name."""
    done = invoke("doctor", *options, "--json")
    assert done.exit_code == status, done.stdout
    return {each["name"]: each for each in json.loads(done.stdout)}


def test_a_sound_machine_is_status_0(folder: Path) -> None:
    """What is optional and not there is no fault."""
    with SqliteStore(folder / "crib.sqlite3") as store:
        store.acquire("one")
    tools = ("--host-tools-module", "cli_tools")

    found = look("--store", "crib.sqlite3", *tools, "--port", free_port())

    assert found["python"]["level"] == "ok"
    assert found["extra cli"]["level"] == "ok"
    assert found["store"]["text"] == "crib.sqlite3 has 1 sessions"
    assert found["host tools"]["text"] == "add, shout, chatter, linger, hack"
    assert found["port"]["level"] == "ok"
    assert found["token file"]["level"] == "absent"


def free_port() -> str:
    with socket.create_server(("127.0.0.1", 0)) as found:
        return str(found.getsockname()[1])


def test_keys_are_told_and_not_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a key is set is all that is said of it."""
    monkeypatch.setenv("OPENAI_API_KEY", "sk-hush-hush")
    monkeypatch.delenv("XAI_API_KEY", raising=False)

    done = invoke("doctor", "--port", free_port())

    assert "key OPENAI_API_KEY: set" in done.stdout
    assert "key XAI_API_KEY: not set" in done.stdout
    assert "hush" not in done.stdout + done.stderr


def test_what_is_broken_is_status_1(folder: Path) -> None:
    """Each fault is a finding with what is wrong; the worst of them is the status."""
    (folder / "bad.yaml").write_text("version: 2\n", "utf-8")
    (folder / "crib.sqlite3").write_text("no database, whatever its name says\n" * 100, "utf-8")

    found = look(
        *("--store", "crib.sqlite3", "--policy", "bad.yaml", "--host-tools", "none.yaml"), status=1
    )

    for name in ("store", "policy", "host tools"):
        assert found[name]["level"] == "failure"
    assert "none.yaml" in found["host tools"]["text"]


def test_a_store_that_is_not_there_is_not_made(folder: Path) -> None:
    """A look changes nothing; a folder that is not there is a fault."""
    assert look("--store", "new.sqlite3")["store"]["level"] == "ok"
    assert look("--store", "none/new.sqlite3", status=1)["store"]["level"] == "failure"
    assert not (folder / "new.sqlite3").exists()


def test_a_token_file_that_others_may_read_is_a_fault(folder: Path) -> None:
    """It is found before a server refuses it, and its token is not shown."""
    token = folder / "state" / "toolcrib" / "token"
    token.parent.mkdir(parents=True)
    token.write_text("hush" * 8, "ascii")
    os.chmod(token, 0o644)

    found = look(status=1)

    assert "chmod 600" in found["token file"]["text"]
    assert "hush" not in json.dumps(found)


def test_newcomers_b_it_speaks_of_what_users_need(monkeypatch: pytest.MonkeyPatch) -> None:
    """Newcomers B: nothing about programs that only the tests of the package use."""
    monkeypatch.setenv("PATH", "")

    done = invoke("doctor", "--port", free_port())

    assert "chromium" not in done.stdout
    assert " tests" not in done.stdout
    assert "only MCP servers that are started with npx need it" in done.stdout


def test_a_port_that_is_taken_is_a_warning() -> None:
    """Another port can be served on, so only --strict fails."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])

        assert look("--port", port)["port"]["level"] == "warning"
        look("--port", port, "--strict", status=1)


def test_a_store_on_postgresql(postgres_url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether it answers, its schema, the key, who shares it and whose clock is right; nothing is
    made by looking, and no secret is shown.
    """
    from toolcrib.store import PostgresStore
    from toolcrib.store.cipher import new_key
    from toolcrib.store.shared_store import SharedValue

    key = new_key()
    monkeypatch.setenv("TOOLCRIB_STORE_KEY", key)
    empty = _checks(postgres_url)
    assert empty["schema"] == ("absent", "no tables yet; the first replica makes them")
    assert _checks(postgres_url)["schema"] == empty["schema"]

    with PostgresStore(postgres_url) as store:
        replica = store.join("http://10.0.0.1:8420")
        store.put_value(SharedValue("secret", b"hush", is_secret=True), after=None)
        found = _checks(postgres_url)
        monkeypatch.setenv("TOOLCRIB_STORE_KEY", new_key())
        other = _checks(postgres_url)

    assert [found[name][0] for name in ("store", "schema", "store key", "clock")] == ["ok"] * 4
    level, text = found[f"replica {replica.replica_id}"]
    assert (level, "at http://10.0.0.1:8420, version" in text) == ("ok", True)
    assert (other["store key"][0], "which is not given here" in other["store key"][1]) == (
        "failure",
        True,
    )
    assert key not in str(other)


def test_the_key_of_a_store_is_found_where_a_server_finds_it(
    postgres_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the file that the project names; a secret that needs an older key is no fault."""
    from toolcrib.store import PostgresStore
    from toolcrib.store.cipher import Cipher, new_key
    from toolcrib.store.shared_store import SharedValue

    monkeypatch.delenv("TOOLCRIB_STORE_KEY", raising=False)
    old, new = new_key(), new_key()
    with PostgresStore(postgres_url, key=old) as store:
        store.put_value(SharedValue("secret", b"hush", is_secret=True), after=None)
    (tmp_path / "toolcrib.yaml").write_text("replica: {key_file: store.key}\n", "utf-8")
    monkeypatch.chdir(tmp_path)

    (tmp_path / "store.key").write_text(old)
    assert _checks(postgres_url)["store key"] == ("ok", "set")
    (tmp_path / "store.key").write_text(f"{new},{old}")
    level, text = _checks(postgres_url)["store key"]
    assert (level, Cipher(old).key_names[0] in text) == ("ok", True)
    (tmp_path / "store.key").unlink()
    assert "cannot be read" in _checks(postgres_url)["store"][1]


def test_a_database_that_does_not_answer() -> None:
    """The failure names it without the password."""
    found = _checks("postgresql://ada:hush@127.0.0.1:1/crib")
    level, text = found["store"]
    assert level == "failure"
    assert "postgresql://ada@127.0.0.1:1/crib cannot be reached" in text
    assert "hush" not in str(found)


def _checks(store: str) -> dict[str, tuple[str, str]]:
    """What the doctor says of a store."""
    done = invoke("doctor", "--store", store, "--json")
    return {each["name"]: (each["level"], each["text"]) for each in json.loads(done.stdout)}
