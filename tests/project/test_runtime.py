"""What a project describes can do all that a configuration in Python can."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from toolcrib.adapters.options import Budget
from toolcrib.calls.outcome import Limits
from toolcrib.egress import EgressPolicy
from toolcrib.errors import InvalidProject, InvalidTool, UsageError
from toolcrib.project import read_project
from toolcrib.project.hosted_tools import hosted_kinds, hosted_tools_of
from toolcrib.project.model import adapter_of
from toolcrib.project.runtime import RuntimeOptions, hosted_runtime
from toolcrib.project.settings import RUNTIME_SETTINGS
from toolcrib.runtime.ownership import CallerChoices
from toolcrib.runtime.quotas import PrincipalLimits
from toolcrib.store import Retention

CODE = '''
from toolcrib import tool
from toolcrib.calls.hooks import Hooks
from toolcrib.context import AgentContext
from toolcrib.toolsets import BaseTool, Toolset


@tool
def greet(name: str) -> str:
    """Greet somebody.

    Args:
        name: Whom.
    """
    return f"hello {name}"


@tool(requires_approval=True)
def wipe() -> str:
    """Wipe the board."""
    return "wiped"


async def upper(context, name, arguments):
    return {key: value.upper() for key, value in arguments.items()}


async def mark(context, name, value):
    return f"<{value}>"


async def exclaim(context, name, value):
    return f"{value}!"


shout = Hooks(global_pre=upper, global_post=mark)
excite = Hooks(global_post=exclaim)
watched = Hooks()
seen = []


@watched.before_call("gr*", source="host", timeout=5)
async def watch(context, name, arguments):
    seen.append(name)
    return arguments


@watched.on("session_opened")
async def opened(session):
    seen.append(f"opened by {session.principal}")


@watched.on("session_closed")
async def closed(session):
    seen.append("closed")


class Always:
    async def ask(self, request):
        from toolcrib.approval.approvers import Reply
        from toolcrib.approval.decision import Actor, Approve

        return Reply(Approve(), Actor("person", "ann"))


always = Always()


class Ping(BaseTool):
    """Ping."""

    name = "ping"
    description = "Ping."

    async def call(self, ctx) -> str:
        return "pong"


def pings():
    return Toolset(AgentContext(), [Ping])
'''


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder with a module of tools, hooks and an approver."""
    (tmp_path / "project_code.py").write_text(CODE, "utf-8")
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield tmp_path
    sys.modules.pop("project_code", None)


def options(folder: Path, text: str) -> RuntimeOptions:
    """What a command that serves the project has in force without flags."""
    (folder / "toolcrib.yaml").write_text(text, "utf-8")
    project = read_project(folder / "toolcrib.yaml")
    values = {setting.name: setting.in_project(project) for setting in RUNTIME_SETTINGS}
    set_values: dict[str, Any] = {name: each for name, each in values.items() if each is not None}
    return RuntimeOptions(project=project, uses_model=True, **set_values)


async def called(given: RuntimeOptions, tool: str, arguments: dict[str, Any]) -> Any:
    """The result of a call in a new session of the project's runtime."""
    async with hosted_runtime(given, print) as host, host.runtime as runtime:
        session = await runtime.ask("session.create", {})
        params = {"session_id": session.session_id, "name": tool, "arguments": arguments}
        return await runtime.ask("tools.call", params)


async def test_hooks_run_around_every_call_in_their_order(folder: Path) -> None:
    """F10: an operator of the command line has hooks. The first is the outermost."""
    given = options(
        folder,
        "tools: {modules: [project_code]}\nhooks: ['project_code:shout', 'project_code:excite']\n",
    )
    result = await called(given, "greet", {"name": "ann"})
    assert result.text == "<hello ANN!>"


async def test_filters_and_session_hooks_of_a_project(folder: Path) -> None:
    """`hooks:` takes hooks with filters, and those around sessions."""
    text = "tools: {modules: [project_code]}\nhooks: ['project_code:watched']\n"
    given = options(folder, text)
    await called(given, "greet", {"name": "ann"})
    assert sys.modules["project_code"].seen == ["opened by owner", "greet", "closed"]


async def test_an_approver_is_asked(folder: Path) -> None:
    """F10: an operator of the command line has an approver."""
    given = options(folder, "tools: {modules: [project_code]}\napprover: project_code:always\n")
    result = await called(given, "wipe", {})
    assert (result.status, result.text) == ("completed", "wiped")


async def test_limits_of_calls_hold(folder: Path) -> None:
    """F10: an operator of the command line has limits."""
    given = options(
        folder, "tools: {modules: [project_code]}\nlimits: {call: {max_arguments_bytes: 5}}\n"
    )
    result = await called(given, "greet", {"name": "a long name"})
    assert result.status == "failed"


async def test_limits_of_prompts_are_the_budget(folder: Path) -> None:
    """An operator of the command line bounds what a prompt may cost."""
    given = options(folder, "limits: {prompt: {max_cost: 0.5, max_steps: 9}}\n")
    async with hosted_runtime(given, print) as host:
        assert host.runtime.config.budget == Budget(max_cost=0.5, max_steps=9)


async def test_a_toolset_is_served(folder: Path) -> None:
    """F10: a toolset with its hooks can be given to a runtime by its name."""
    given = options(folder, "toolsets: ['project_code:pings']\n")
    assert (await called(given, "ping", {})).text == "pong"


async def test_sessions_start_in_the_folder_of_the_project(folder: Path) -> None:
    """Wherever the command was typed."""
    async with hosted_runtime(options(folder, ""), print) as host:
        assert host.runtime.config.cwd == str(folder)


@pytest.mark.parametrize(
    ("text", "fault"),
    [
        ("hooks: ['project_code:greet']", "name one of toolcrib.Hooks"),
        ("hooks: ['project_code:gone']", "'project_code' has no 'gone'"),
        ("toolsets: ['project_code:always']", "name a Toolset"),
        ("approver: project_code:Always", "is no approver"),
        ("model: {adapter: 'project_code:greet'}", "is no adapter"),
    ],
)
async def test_an_object_of_the_wrong_kind_is_refused(folder: Path, text: str, fault: str) -> None:
    """Nothing starts without what the file names."""
    with pytest.raises(UsageError, match=fault):
        async with hosted_runtime(options(folder, text), print):
            pass


class TestHostedTools:
    """Tools of the provider are offered to every session."""

    async def test_each_kind_has_its_options(self, folder: Path) -> None:
        """F10: what is served can do what a prompt in Python can."""
        given = options(
            folder,
            """
hosted_tools:
  web_search: {domain_filter: {allowed: [example.org]}}
  code_interpreter: {container: {memory_limit: 4g}}
  file_search: {vector_store_ids: [vs_1]}
  image_generation: true
  web_fetch: false
  mcp:
    - {server_label: docs, server_url: "https://docs.example/mcp"}
""",
        )
        async with hosted_runtime(given, print) as host:
            tools = {tool.name: tool for tool in host.runtime.config.hosted_tools}
        names = {"web_search", "code_interpreter", "file_search", "image_generation", "docs"}
        assert set(tools) == names
        search: Any = tools["web_search"]
        assert search.config.domain_filter.allowed == ("example.org",)
        code: Any = tools["code_interpreter"]
        assert code.config.container.memory_limit == "4g"

    @pytest.mark.parametrize(
        ("text", "fault"),
        [
            (
                "  web_search:\n    domain_filter: {allow: [a.example]}\n",
                r"toolcrib.yaml:2: hosted_tools.web_search.domain_filter: unknown key 'allow'",
            ),
            (
                "  code_interpreter: {container: {memory_limit: 3g}}\n",
                r"toolcrib.yaml:2: hosted_tools.code_interpreter.container",
            ),
        ],
    )
    def test_a_fault_names_its_line(self, folder: Path, text: str, fault: str) -> None:
        """A key that would be dropped is refused."""
        (folder / "toolcrib.yaml").write_text(f"hosted_tools:\n{text}", "utf-8")
        with pytest.raises(InvalidProject, match=fault):
            hosted_tools_of(read_project(folder / "toolcrib.yaml"))

    def test_a_secret_comes_from_the_environment(
        self, folder: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The file can be shared."""
        (folder / "toolcrib.yaml").write_text(
            "hosted_tools:\n  mcp:\n    - {server_label: docs, server_url: 'https://a.example',"
            " authorization: '${DOCS_TOKEN}'}\n",
            "utf-8",
        )
        monkeypatch.setenv("DOCS_TOKEN", "s3cret")
        [tool] = hosted_tools_of(read_project(folder / "toolcrib.yaml"))
        assert tool.config.authorization == "s3cret"
        monkeypatch.delenv("DOCS_TOKEN")
        with pytest.raises((InvalidProject, InvalidTool), match="DOCS_TOKEN"):
            hosted_tools_of(read_project(folder / "toolcrib.yaml"))

    def test_the_schema_knows_the_options_of_every_kind(self) -> None:
        """An option of a kind can be written into the file, and no other."""
        import dataclasses

        from toolcrib.project import project_schema

        listed = project_schema()["properties"]["hosted_tools"]["properties"]
        for kind, form in hosted_kinds().items():
            schema = listed[kind]["items"] if kind == "mcp" else listed[kind]
            names = {each.name for each in dataclasses.fields(form.config)}
            assert set(schema["properties"]) == names, kind
        assert set(listed) == set(hosted_kinds())


class TestModel:
    """The short forms of a model."""

    def model(self, folder: Path, text: str) -> Any:
        (folder / "toolcrib.yaml").write_text(f"model: {text}\n", "utf-8")
        return adapter_of(read_project(folder / "toolcrib.yaml").model)

    def test_openai(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """By the name of the model."""
        monkeypatch.setenv("OPENAI_API_KEY", "none")
        assert self.model(folder, "{openai: gpt-5.1}").model == "gpt-5.1"

    def test_pydantic_ai(self, folder: Path) -> None:
        """By the name that pydantic-ai knows."""
        assert self.model(folder, "{pydantic_ai: 'test'}").name == "pydantic-ai"

    def test_a_chat_endpoint(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        """With its key in the environment; a key that is not set is a fault."""
        text = "{chat: {url: 'http://127.0.0.1:1/v1', model: qwen3, api_key_env: CHAT_KEY}}"
        monkeypatch.delenv("CHAT_KEY", raising=False)
        with pytest.raises(UsageError, match="CHAT_KEY"):
            self.model(folder, text)
        monkeypatch.setenv("CHAT_KEY", "s3cret")
        assert self.model(folder, text).model == "qwen3"

    def test_the_embedded_provider(self, folder: Path) -> None:
        """One of its backends proposes."""
        text = "{embedded: {chat: {url: 'http://127.0.0.1:1/v1', model: qwen3}}}"
        assert self.model(folder, text).model == "qwen3"
        with pytest.raises(InvalidProject, match="one of scenario, llama and chat"):
            self.model(folder, "{embedded: {data: here}}")

    def test_none(self, folder: Path) -> None:
        """A project without a model has no adapter."""
        (folder / "toolcrib.yaml").write_text("", "utf-8")
        assert adapter_of(read_project(folder / "toolcrib.yaml").model) is None


async def test_mcp_servers_are_mounted_from_the_file(folder: Path) -> None:
    """As in a file of host tools, with the folder of the project as theirs."""
    given = options(folder, "mcp_servers:\n  shop: {command: ./shop, args: [--stdio]}\n")
    async with hosted_runtime(given, print) as host:
        [server] = host.servers
    assert (server.name, getattr(server, "cwd", None)) == ("shop", str(folder))


async def test_one_server_name_is_used_once(folder: Path) -> None:
    """Two servers of one name would have the same tools."""
    (folder / ".mcp.json").write_text(
        json.dumps({"mcpServers": {"shop": {"command": "other"}}}), "utf-8"
    )
    given = options(
        folder, "mcp_servers:\n  shop: {command: ./shop}\nmcp_servers_file: .mcp.json\n"
    )
    with pytest.raises(InvalidTool, match="has a server of that name already"):
        async with hosted_runtime(given, print):
            pass


async def test_a_server_keeps_the_retention_of_the_file(folder: Path) -> None:
    """Newcomers C, no retention: the server prunes; a command that only passes by deletes
    nothing.
    """
    given = options(folder, "store: crib.sqlite3\nretention: {older_than: 90d, every: 10m}\n")
    serving = replace(given, taken=given.taken | {"anchor_file"})
    async with hosted_runtime(serving, print) as host:
        expected = Retention(older_than=90 * 86_400.0, every_seconds=600.0)
        assert host.runtime.config.retention == expected
    async with hosted_runtime(given, print) as host:
        assert host.runtime.config.retention is None


async def test_requests_are_priced_by_the_file_of_the_project(folder: Path) -> None:
    """A wrong file is refused before the store is opened."""
    (folder / "prices.yaml").write_text("models: {m: {input: 1}}", "utf-8")
    given = options(folder, "store: crib.sqlite3\nprices: prices.yaml\n")
    with pytest.raises(UsageError, match="m: write `input` and `output`"):
        async with hosted_runtime(given, print):
            pass


async def test_every_limit_of_the_file_reaches_the_runtime(folder: Path) -> None:
    """None is accepted and ignored."""
    given = options(
        folder,
        """
limits:
  call: {timeout: 1, max_parallel: 2, max_threads: 3, max_depth: 4, max_arguments_bytes: 5,
         max_result_chars: 6}
  principal: {concurrent_calls: 7, calls_per_minute: 8, open_sessions: 9, payload_bytes_per_day: 10}
  idle_seconds: 11
  drain_seconds: 12
  max_sessions: 13
  max_payload_bytes: 14
  event_backlog: 15
""",
    )
    async with hosted_runtime(given, print) as host:
        config = host.runtime.config
    assert config.limits == Limits(
        timeout=1,
        max_parallel=2,
        max_threads=3,
        max_depth=4,
        max_arguments_bytes=5,
        max_result_chars=6,
    )
    assert config.principal_limits == PrincipalLimits(
        concurrent_calls=7, calls_per_minute=8, open_sessions=9, payload_bytes_per_day=10
    )
    assert (config.idle_seconds, config.drain_seconds, config.max_sessions) == (11, 12, 13)
    assert (config.max_payload_bytes, config.event_backlog) == (14, 15)


async def test_what_callers_may_choose_reaches_the_runtime(folder: Path) -> None:
    """Folders are those beside the file."""
    given = options(
        folder,
        "serve: {allow_cwd: [work], allow_env: [LANG], allow_egress: [10.0.0.0/8]}\n"
        "approve_own_calls: true\ntools: {expected: ['later_*'], bind_to: version}\n",
    )
    async with hosted_runtime(given, print) as host:
        config = host.runtime.config
    assert config.callers_choose == CallerChoices(roots=[str(folder / "work")], variables=["LANG"])
    assert config.egress == EgressPolicy.of(["10.0.0.0/8"])
    assert (config.approve_own_calls, config.bind_to) == (True, "version")
    assert list(config.expected_tools) == ["later_*"]
