"""`toolcrib install`: the client's file has one server more, and everything else stays."""

import json
import os
import stat
import subprocess
import sys
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

from tests.cli.command import at_terminal, invoke
from tests.helpers.patience import PATIENCE
from toolcrib.cli.commented_json import parse
from toolcrib.cli.mcp_clients import CLIENTS, words_of

FILES = {
    "claude-code": (".claude.json", ".mcp.json"),
    "codex": (".codex/config.toml", ".codex/config.toml"),
    "opencode": (".config/opencode/opencode.json", "opencode.json"),
    "cursor": (".cursor/mcp.json", ".cursor/mcp.json"),
    "vscode": (".config/Code/User/mcp.json", ".vscode/mcp.json"),
    "zed": (".config/zed/settings.json", ".zed/settings.json"),
}
"""The file of each client: for the user, in the home folder, and in a project."""

linux = pytest.mark.skipif(sys.platform != "linux", reason="other systems have other folders")
pytestmark = [linux, pytest.mark.usefixtures("home")]


@pytest.fixture
def home(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A home folder, and a project in the working directory."""
    home = folder / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    for name in ("XDG_CONFIG_HOME", "CODEX_HOME", "CLAUDE_CONFIG_DIR"):
        monkeypatch.delenv(name, raising=False)
    assert invoke("init", "my shop").exit_code == 0
    monkeypatch.chdir(folder / "my shop")
    return home


def servers_in(file: Path, client: str) -> Mapping[str, Any]:
    """The servers that a client's file names."""
    text = file.read_text("utf-8")
    data: Any = tomllib.loads(text) if client == "codex" else parse(text).value
    for key in CLIENTS[client].keys:
        data = data[key]
    return data


def expected_words(project: Path) -> list[str]:
    file = str(project / "toolcrib.yaml")
    return [sys.executable, "-P", "-m", "toolcrib", "--project", file, "mcp"]


@pytest.mark.parametrize("client", CLIENTS)
def test_the_server_is_written_where_the_client_looks(home: Path, client: str) -> None:
    """User scope is the default; the file is made, only for its owner, and its diff was shown."""
    done = invoke("install", client, "--yes")

    file = home / FILES[client][0]
    assert done.exit_code == 0, done.stderr
    assert "+" in done.stdout
    assert words_of(servers_in(file, client)["my-shop"]) == expected_words(Path.cwd())
    assert stat.S_IMODE(file.stat().st_mode) == 0o600


@pytest.mark.parametrize("client", CLIENTS)
def test_in_a_project_it_is_the_folder_of_the_project_file(
    client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Wherever in the project the command was given."""
    project = Path.cwd()
    (project / "deep").mkdir()
    monkeypatch.chdir(project / "deep")

    done = invoke("install", client, "--scope", "project", "--name", "tools", "--yes")

    assert done.exit_code == 0, done.stderr
    file = project / FILES[client][1]
    assert words_of(servers_in(file, client)["tools"]) == expected_words(project)


@pytest.mark.parametrize(
    ("client", "entry"),
    [
        ("claude-code", {"type": "stdio"}),
        ("cursor", {"type": "stdio"}),
        ("vscode", {"type": "stdio"}),
        ("opencode", {"type": "local", "enabled": True}),
        ("zed", {"source": "custom", "env": {}}),
        ("codex", {}),
    ],
)
def test_an_entry_has_the_form_of_its_client(
    home: Path, client: str, entry: dict[str, Any]
) -> None:
    """Beside the command and its arguments."""
    invoke("install", client, "--yes")

    written = dict(servers_in(home / FILES[client][0], client)["my-shop"])
    command = written.pop("command")
    assert isinstance(command, list) == (client == "opencode")
    written.pop("args", None)
    assert written == entry


OTHERS = {
    "json": """\
// mine
{
  "theme": "dark", /* always */
  "KEYS": {"other": {"command": "x", "args": []}},
}
""",
    "toml": """\
# mine
model = "gpt-5"  # always

[KEYS.other]
command = "x"  # not mine

[profiles.fast]
model = "small"
""",
}


@pytest.mark.parametrize("client", CLIENTS)
def test_everything_else_stays(home: Path, client: str) -> None:
    """Comments, other servers, order, mode; and after --remove the file is as it was."""
    file = home / FILES[client][0]
    before = OTHERS["toml" if client == "codex" else "json"]
    before = before.replace("KEYS", CLIENTS[client].keys[0])
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(before, "utf-8")
    file.chmod(0o640)

    assert invoke("install", client, "--yes").exit_code == 0
    after = file.read_text("utf-8")

    assert set(servers_in(file, client)) == {"other", "my-shop"}
    for piece in before.replace("},\n}", "").replace("}}", "").splitlines():
        assert piece in after
    assert stat.S_IMODE(file.stat().st_mode) == 0o640
    assert [each.name for each in file.parent.iterdir() if each.name.endswith(".new")] == []
    assert invoke("install", client, "--remove", "--yes").exit_code == 0
    assert set(servers_in(file, client)) == {"other"}
    if client == "codex":
        assert tomllib.loads(file.read_text("utf-8")) == tomllib.loads(before)
        assert "# not mine" in file.read_text("utf-8")
    else:
        assert parse(file.read_text("utf-8")).value == parse(before).value


def test_twice_is_once(home: Path) -> None:
    """A second time changes nothing and says so; another interpreter replaces the entry."""
    file = home / ".claude.json"
    invoke("install", "claude-code", "--yes")
    before = file.read_text("utf-8")

    again = invoke("install", "claude-code", "--yes")

    assert (again.exit_code, again.stdout) == (0, "")
    assert "already has" in again.stderr
    assert file.read_text("utf-8") == before
    file.write_text(before.replace(sys.executable, "/old/python"), "utf-8")
    invoke("install", "claude-code", "--yes")
    assert file.read_text("utf-8") == before


@pytest.mark.parametrize("client", CLIENTS)
def test_what_was_added_to_the_entry_stays(home: Path, client: str) -> None:
    """A second time gives the entry its command, and leaves what its owner wrote into it."""
    file = home / FILES[client][0]
    invoke("install", client, "--yes")
    written = file.read_text("utf-8").replace(sys.executable, "/old/python")
    mine = "[mcp_servers.my-shop.env] # mine\nA = '1'\n" if client == "codex" else None
    changed = (
        f"{written}{mine}"
        if mine
        else written.replace('"my-shop": {', '"my-shop": { // mine\n      "timeout": 5,', 1)
    )
    file.write_text(changed, "utf-8")

    assert invoke("install", client, "--yes").exit_code == 0

    entry = servers_in(file, client)["my-shop"]
    assert words_of(entry) == expected_words(Path.cwd())
    assert entry.get("timeout") == 5 or entry.get("env") == {"A": "1"}
    assert "mine\n" in file.read_text("utf-8")


@pytest.mark.parametrize(
    "text",
    [
        'mcp_servers = { other = {command = "x"} } # mine\n',
        'mcp_servers.other.command = "x" # mine\n',
        '[mcp_servers.other]\ncommand = "x"\n[z]\na = 1 # mine\n[mcp_servers.third]\nurl = "y"\n',
    ],
)
def test_every_form_of_toml_is_kept(home: Path, text: str) -> None:
    """Inline tables, dotted keys, and tables in any order."""
    file = home / ".codex/config.toml"
    file.parent.mkdir()
    file.write_text(text, "utf-8")

    assert invoke("install", "codex", "--yes").exit_code == 0
    assert {"other", "my-shop"} <= set(servers_in(file, "codex"))
    assert "# mine" in file.read_text("utf-8")
    assert invoke("install", "codex", "--remove", "--yes").exit_code == 0
    assert tomllib.loads(file.read_text("utf-8")) == tomllib.loads(text)


def test_a_server_of_somebody_else_is_not_replaced(home: Path) -> None:
    """The name is taken: another has to be chosen."""
    file = home / ".cursor/mcp.json"
    file.parent.mkdir()
    file.write_text('{"mcpServers": {"my-shop": {"command": "shop"}}}', "utf-8")

    for flags in (("--yes",), ("--remove", "--yes")):
        done = invoke("install", "cursor", *flags)
        assert done.exit_code == 1
        assert "another server named 'my-shop'" in done.stderr
    assert "toolcrib" not in file.read_text("utf-8")


def test_a_dry_run_writes_nothing(home: Path) -> None:
    """The change is shown, and that is all."""
    done = invoke("install", "vscode", "--dry-run")

    assert done.exit_code == 0
    assert '+    "my-shop": {' in done.stdout
    assert not (home / FILES["vscode"][0]).exists()


def test_without_a_terminal_somebody_has_to_say_yes(home: Path) -> None:
    """Nothing is written because nobody could object."""
    done = invoke("install", "claude-code")

    assert done.exit_code == 2
    assert "--yes" in done.stderr
    assert not (home / ".claude.json").exists()


@pytest.mark.wire
@pytest.mark.parametrize(("answer", "status"), [("y", 0), ("", 1), ("n", 1)])
async def test_at_a_terminal_it_asks(home: Path, answer: str, status: int) -> None:
    """The diff comes first; Enter alone writes nothing."""
    with at_terminal("install", "claude-code", cwd=Path.cwd(), HOME=str(home)) as started:
        await started.see('+    "my-shop": {')
        await started.see("Write it? [y/N]: ")
        started.terminal.type(f"{answer}\n")
        await started.see("was written" if status == 0 else "nothing was written")
        assert await started.exit_code() == status

    assert (home / ".claude.json").exists() == (status == 0)


@pytest.mark.parametrize(
    ("client", "text", "where"),
    [
        ("zed", '{\n  "a": 1\n  "b": 2\n}', "settings.json: line 3:"),
        ("vscode", "[]", "mcp.json: line 1:"),
        ("codex", "a = 1\nb = = 2\n", "config.toml: Invalid value (at line 2"),
    ],
)
def test_a_file_that_cannot_be_read_is_left_alone(
    home: Path, client: str, text: str, where: str
) -> None:
    """Its owner is told the line."""
    file = home / FILES[client][0]
    file.parent.mkdir(parents=True)
    file.write_text(text, "utf-8")

    done = invoke("install", client, "--yes")

    assert done.exit_code == 1
    assert where in done.stderr
    assert file.read_text("utf-8") == text


def test_a_change_by_somebody_else_is_not_lost(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The client itself writes its file, too: what was shown has to be what is replaced."""
    file = home / ".claude.json"
    file.write_text("{}", "utf-8")
    fsync: Callable[[int], None] = os.fsync

    def change_meanwhile(descriptor: int) -> None:
        file.write_text('{"mine": 1}', "utf-8")
        fsync(descriptor)

    monkeypatch.setattr(os, "fsync", change_meanwhile)

    done = invoke("install", "claude-code", "--yes")

    assert done.exit_code == 1
    assert "changed meanwhile" in done.stderr
    assert file.read_text("utf-8") == '{"mine": 1}'


def test_a_link_stays_a_link(home: Path) -> None:
    """People keep their settings elsewhere, and link them."""
    (home / "dotfiles").mkdir()
    (home / "dotfiles" / "claude.json").write_text("{}", "utf-8")
    (home / ".claude.json").symlink_to(home / "dotfiles" / "claude.json")

    invoke("install", "claude-code", "--yes")

    assert (home / ".claude.json").is_symlink()
    assert "my-shop" in (home / "dotfiles" / "claude.json").read_text("utf-8")


@pytest.mark.parametrize("link", [".vscode", ".vscode/mcp.json"])
def test_a_link_out_of_a_project_is_not_followed(home: Path, link: str) -> None:
    """A project of somebody else could have a file of its user changed."""
    mine = home / "mine"
    mine.mkdir()
    (mine / "mcp.json").write_text("{}", "utf-8")
    place = Path(link)
    place.parent.mkdir(exist_ok=True)
    place.symlink_to(mine if link == ".vscode" else mine / "mcp.json")

    done = invoke("install", "vscode", "--scope", "project", "--yes")

    assert done.exit_code == 2
    assert "leads out of the project" in done.stderr
    assert (mine / "mcp.json").read_text("utf-8") == "{}"


@pytest.mark.parametrize("name", ["toolcrib", "json", "hostile_library"])
def test_the_folder_that_a_client_opens_runs_no_code(
    home: Path, tmp_path_factory: pytest.TempPathFactory, name: str
) -> None:
    """A client starts the command in any folder; neither Python nor a library that looks for an
    optional package imports a file of it.
    """
    hostile = tmp_path_factory.mktemp("hostile")
    (hostile / f"{name}.py").write_text("open('was-run', 'w')\nraise SystemExit(9)\n", "utf-8")
    project = Path.cwd()
    (project / "shop_tools.py").write_text(
        "from contextlib import suppress\n\nfrom toolcrib import tool\n\n"
        "with suppress(ImportError):\n    import hostile_library\n\n\n"
        '@tool\ndef add(a: int) -> int:\n    """Add one."""\n    return a + 1\n',
        "utf-8",
    )
    (project / "toolcrib.yaml").write_text("tools: {modules: [shop_tools]}\n", "utf-8")
    [entry] = json.loads(invoke("install", "--print", "json").stdout)["mcpServers"].values()
    done = subprocess.run(words_of(entry), cwd=hostile, stdin=subprocess.DEVNULL, timeout=PATIENCE)

    assert done.returncode == 0
    assert not (hostile / "was-run").exists()


def test_opencode_2_keeps_its_own_form(home: Path) -> None:
    """Its servers are one level further in, and its file may be JSON with comments."""
    file = home / ".config/opencode/opencode.jsonc"
    file.parent.mkdir(parents=True)
    file.write_text('{"mcp": {"servers": {}}}', "utf-8")

    invoke("install", "opencode", "--yes")

    assert set(parse(file.read_text("utf-8")).value["mcp"]["servers"]) == {"my-shop"}


def test_any_other_client_gets_json() -> None:
    """`mcpServers`, as most clients take it."""
    done = invoke("install", "--print", "json")

    (entry,) = json.loads(done.stdout)["mcpServers"].values()
    assert words_of(entry) == expected_words(Path.cwd())


def test_without_a_project_it_says_how_to_get_one(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """There is nothing to install."""
    monkeypatch.chdir(folder)

    done = invoke("install", "claude-code", "--yes")

    assert done.exit_code == 2
    assert "toolcrib init" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("client", CLIENTS)
async def test_what_was_written_is_a_server(
    home: Path, folder: Path, client: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The command of the file, started from another folder by the official client, has the tools
    of the project.
    """
    invoke("install", client, "--yes")
    command, *arguments = words_of(servers_in(home / FILES[client][0], client)["my-shop"])
    monkeypatch.chdir(folder)
    env = {"PYTHONPATH": os.environ.get("PYTHONPATH", ""), "HOME": str(home)}

    server = StdioServerParameters(command=command, args=arguments, env=env, cwd=folder)
    async with Client(stdio_client(server)) as session:
        listed = await session.list_tools()

    assert [tool.name for tool in listed.tools] == ["stock_level", "order_parts"]


def test_tabs_are_shown_as_columns(home: Path) -> None:
    """A file that is indented with tabs has a diff that can be read."""
    (home / ".cursor").mkdir()
    (home / ".cursor/mcp.json").write_text('{\n\t"mcpServers": {}\n}\n', "utf-8")

    shown = invoke("install", "cursor", "--dry-run").stdout

    assert "u0009" not in shown
    assert '+       "my-shop": {' in shown


def test_a_read_only_file_is_left_alone(home: Path) -> None:
    """Who took away the right to write the file did not mean it to be replaced."""
    file = home / ".claude.json"
    file.write_text("{}", "utf-8")
    file.chmod(0o400)

    done = invoke("install", "claude-code", "--yes")

    assert done.exit_code == 1
    assert "it is read-only; make it writable first; nothing was written" in done.stderr
    assert file.read_text("utf-8") == "{}"


def test_a_removal_does_not_tell_to_start_the_server() -> None:
    """What is said at the end is true of what was done."""
    assert "start it" in invoke("install", "vscode", "--yes").stderr

    removed = invoke("install", "vscode", "--remove", "--yes").stderr

    assert "start it" not in removed
    assert "VS Code lets go of it when it starts again" in removed
