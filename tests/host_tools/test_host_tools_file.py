"""Host tools from a YAML file: what it means, and that every fault names file, line and tool."""

from __future__ import annotations

import sys
from dataclasses import replace
from pathlib import Path

import pytest

from tests.host_tools.project import QUERY, Project
from tests.host_tools.samples import context_for
from toolcrib.calls import Executor
from toolcrib.errors import InvalidTool
from toolcrib.host_tools import (
    HostToolRegistry,
    ToolScope,
    load_host_tools_file,
    parse_host_tools,
)
from toolcrib.session import Session

WHOLE = """\
tools:
  - name: shop.query
    description: Query the shop's database
    module: shop_handlers
    function: query
    parameters: {type: object, properties: {sql: {type: string}}, required: [sql]}
    scope: global
    category: data
    requires_approval: true
    timeout: 2.5
    version: 1.2.0
    uses: [shop.look]
    requires: [fs]
    is_idempotent: true
    is_read_only: true
    deprecated: Use find.
    sandbox: false
  - name: shop.look
    description: Look around
    module: shop_handlers
    function: Desk.look
    parameters: {type: object}
"""


def one_tool(**changes: str) -> str:
    """A file with one tool, some keys of it changed, added, or (empty) left out."""
    keys = {
        "name": "look",
        "description": "Look around",
        "module": "shop_handlers",
        "function": "now",
        "parameters": "{type: object}",
    }
    lines = [f"    {key}: {value}" for key, value in {**keys, **changes}.items() if value]
    return "tools:\n  -\n" + "\n".join(lines) + "\n"


async def test_the_documents_file_serves_a_tool(project: Project) -> None:
    """R29: name, description, module, function and parameters make a tool that runs."""
    registry = HostToolRegistry()
    for definition in load_host_tools_file(project.shop()).definitions:
        await registry.register(definition)

    (tool,) = registry.create_session_tools("s", context_for("s"))

    assert (await tool.execute({"sql": "select 1"})).value == "s ran select 1"
    assert (await tool.execute({})).metadata == {"failure": "invalid_arguments"}


def test_every_key_ends_up_in_the_definition(project: Project) -> None:
    """R29: and what is left out has the documented default."""
    loaded = load_host_tools_file(project.shop(WHOLE))
    whole, plain = loaded.definitions

    assert (whole.name, whole.description) == ("shop.query", "Query the shop's database")
    assert (whole.scope, whole.category) == (ToolScope.GLOBAL, "data")
    assert (whole.requires_approval, whole.timeout, whole.version) == (True, 2.5, "1.2.0")
    assert (whole.uses, whole.requires) == (("shop.look",), ("fs",))
    assert (whole.is_idempotent, whole.is_read_only) == (True, True)
    assert whole.deprecated == "Use find."
    assert (plain.scope, plain.category, plain.timeout) == (ToolScope.GLOBAL, None, None)
    assert (plain.version, plain.requires_approval) == ("0.0.0", False)
    assert [(each.entry, each.line) for each in loaded.tools] == [("tools[0]", 2), ("tools[1]", 18)]


async def test_with_scope_session_the_function_makes_the_handler(project: Project) -> None:
    """R14, R29: once for each session, from its context."""
    registry = HostToolRegistry()
    text = one_tool(scope="session", function="per_session")
    registry.add_all(load_host_tools_file(project.shop(text)).with_origins())

    for session_id in ("a", "b"):
        (tool,) = registry.create_session_tools(session_id, context_for(session_id))
        assert (await tool.execute({})).value == f"made for {session_id}"


def test_the_folder_it_runs_in_comes_last(project: Project) -> None:
    """R31: its modules can be imported, and none of them replaces an installed library."""
    project.write("json.py", "raise RuntimeError('the wrong json')")
    project.write("yaml.py", "raise RuntimeError('the wrong yaml')")

    load_host_tools_file(project.shop())

    assert sys.path[-1] == str(project.folder)
    assert sys.path.count(str(project.folder)) == 1
    load_host_tools_file(project.shop())
    assert sys.path.count(str(project.folder)) == 1


@pytest.mark.parametrize(
    ("text", "line", "complaint"),
    [
        ("", 1, "this must be lines of key: value"),
        ("- a", 1, "this must be lines of key: value"),
        ("{}", 1, "the file is empty; write tools:, mcp_servers: or openapi:"),
        ("tool: []", 1, "unknown key 'tool'; did you mean 'tools'?"),
        ("tools: {}", 1, "tools must be a list"),
        ("tools:\n  - 5", 2, "tools[0]: this must be lines of key: value"),
        ("tools: [\n", 2, "this is not YAML"),
        ("tools:\n  - &a {}\n  - *a", 2, "anchors (&, *) and tags (!) are not allowed"),
        ("tools:\n  - name: !!python/name:os.system x", 2, "tags (!) are not allowed"),
        ("tools: []\ntools: []", 2, "duplicate key 'tools'; remove one of the two"),
        (one_tool(module=""), 3, "tools[0] 'look': 'module' is missing"),
        (one_tool(name=""), 3, "tools[0]: 'name' is missing"),
        (one_tool(tmeout="5"), 8, "tools[0] 'look': unknown key 'tmeout'; did you mean"),
        (one_tool(zzz="5"), 8, "write one of name, description, module"),
        (one_tool(name="a:b"), 3, "'a:b': name must be 1 to 128 letters, digits"),
        (one_tool(name="5"), 3, "tools[0]: name must be text; put it in quotes"),
        (one_tool(description="'  '"), 4, "description must be text that says something"),
        (one_tool(module="./x.py"), 5, "module must be a Python name like app.tools"),
        (one_tool(parameters="5"), 7, "parameters must be lines of key: value"),
        (one_tool(parameters="{type: array}"), 7, "'look': parameters must describe an object"),
        (one_tool(scope="local"), 8, "scope must be one of global, session"),
        (one_tool(category="''"), 8, "category must be text that says something"),
        (one_tool(requires_approval="yes"), 8, "YAML programs disagree about yes"),
        (one_tool(requires_approval="'yes'"), 8, "requires_approval must be true or false"),
        (one_tool(timeout="0"), 8, "timeout: the value is less than or equal to the minimum of 0"),
        (one_tool(version="1.0"), 8, "version must be text; put it in quotes"),
        (one_tool(version="one"), 8, "version must be a semantic version like 1.2.0"),
        (one_tool(uses="other"), 8, "uses must be a list"),
        (one_tool(uses="[a, 5]"), 8, "uses.1 must be text; put it in quotes"),
        (one_tool(sandbox="'yes'"), 8, "sandbox must be true or false or lines of key: value"),
        (one_tool(sandbox="{sceonds: 5}"), 8, "unknown key 'sceonds'; did you mean 'seconds'?"),
        (one_tool(sandbox="{readable: [no/where]}"), 8, "the readable path"),
        (one_tool(function="json.dumps", sandbox="true"), 6, "two arguments"),
        (one_tool(module="no_such_module"), 5, "cannot import 'no_such_module': ModuleNotFound"),
        (one_tool(module="broken"), 5, "cannot import 'broken': ZeroDivisionError"),
        (one_tool(module="leaving"), 5, "cannot import 'leaving': SystemExit: 3"),
        (one_tool(function="missing"), 6, "'shop_handlers' has no 'missing'"),
        (one_tool(function="Desk.missing"), 6, "'shop_handlers' has no 'Desk.missing'"),
        (one_tool(function="not_callable"), 6, "is not callable; it is int"),
        (one_tool(function="json.dumps"), 6, "two arguments"),
        (one_tool(function="query", scope="session"), 6, "the factory must be a plain function"),
    ],
)
def test_every_fault_names_file_line_and_tool(
    project: Project, text: str, line: int, complaint: str
) -> None:
    """R29, R30: nothing unknown is skipped, and nothing runs that is not what it says."""
    project.write("broken.py", "1 / 0")
    project.write("leaving.py", "raise SystemExit(3)")
    file = project.shop(text)

    with pytest.raises(InvalidTool) as caught:
        load_host_tools_file(file)

    assert str(caught.value).startswith(f"{file}:{line}: ")
    assert complaint in str(caught.value)
    if text.startswith("tools:\n  -\n"):
        assert "tools[0]" in str(caught.value) or "disagree" in complaint


def test_a_fault_within_the_parameters_has_a_line_of_its_own(project: Project) -> None:
    """R5, R30: the line of the very keyword that is wrong."""
    file = project.shop(QUERY.replace("type: string", "type: text"))

    with pytest.raises(InvalidTool) as caught:
        load_host_tools_file(file)

    told = "tools[0] 'shop.query': parameters: no valid JSON Schema at /properties/sql/type"
    assert str(caught.value).startswith(f"{file}:10: {told}")


def test_all_faults_are_told_at_once(project: Project) -> None:
    """R30: in the order of their lines, so that mending a file takes one round."""
    bad = one_tool(module="no_such_module") + one_tool(function="missing")[7:] + "mcp_servers:\n"
    file = project.shop(bad + "  docs: {url: 'http://example.org/mcp'}\n")

    with pytest.raises(InvalidTool) as caught:
        load_host_tools_file(file)

    assert [line.removeprefix(f"{file}:")[:18] for line in str(caught.value).splitlines()] == [
        "5: tools[0] 'look'",
        "9: tools[1] 'look'",
        "12: tools[1] 'look",
        "15: mcp_servers.do",
    ]


def test_f17_faults_of_form_imports_and_names_come_in_one_round(project: Project) -> None:
    """F17: a wrong key hides neither an import that fails nor a name that stands twice, also in
    one and the same tool.
    """
    first = one_tool(module="no_such_module", tmeout="5", parameters="{type: array}")
    file = project.shop(first + one_tool(name="5")[7:] + one_tool()[7:] + "servers: {}\n")

    with pytest.raises(InvalidTool) as caught:
        load_host_tools_file(file)

    text = str(caught.value)
    for fault in (
        f"{file}:5: tools[0] 'look': cannot import 'no_such_module'",
        f"{file}:7: tools[0] 'look': parameters must describe an object",
        f"{file}:8: tools[0] 'look': unknown key 'tmeout'; did you mean 'timeout'?",
        f"{file}:10: tools[1]: name must be text",
        "tools[2] 'look': line 3 has a tool of that name already",
        "unknown key 'servers'",
    ):
        assert fault in text, text
    assert len(text.splitlines()) == 6


DECORATED = """
from toolcrib import tool

@tool(requires_approval=True)
def shout(text: str, times: int = 1) -> str:
    '''Shout a text.'''
    return text.upper() * times
"""


async def test_newcomers_13_a_decorated_function_brings_its_own_schema(project: Project) -> None:
    """Newcomers 13: it is called with typed arguments, as everywhere else; the file may rename it
    and set its rules, and what the file leaves out is the function's.
    """
    project.write("decorated.py", DECORATED)
    entry = {"name": "loud", "module": "decorated", "function": "shout", "timeout": "5"}
    lines = "".join(f"    {key}: {value}\n" for key, value in entry.items())
    file = project.shop(f"tools:\n  -\n{lines}")

    (definition,) = load_host_tools_file(file).definitions
    quiet = replace(definition, requires_approval=False)
    outcome = await Executor(Session(), [quiet]).call("loud", {"text": "hi", "times": 2})

    assert (definition.name, definition.description) == ("loud", "Shout a text.")
    assert set(definition.parameters["properties"]) == {"text", "times"}
    assert (definition.timeout, definition.requires_approval) == (5, True)
    assert outcome.value == "HIHI"


@pytest.mark.parametrize(
    ("key", "value"),
    [("parameters", "{type: object}"), ("scope", "session"), ("sandbox", "true")],
)
def test_newcomers_13_what_a_decorated_function_cannot_have_is_a_fault(
    project: Project, key: str, value: str
) -> None:
    """Newcomers 13: refused at load, where it was called with a dict in place of its arguments."""
    project.write("decorated.py", DECORATED)
    options = {"parameters": ""} | {key: value}
    file = project.shop(one_tool(module="decorated", function="shout", **options))

    with pytest.raises(InvalidTool, match=f"'shout' is an @tool function.*remove {key}"):
        load_host_tools_file(file)


@pytest.mark.parametrize("key", ["description", "parameters"])
def test_a_plain_function_needs_a_schema_and_a_description(project: Project, key: str) -> None:
    """Only a typed function can bring them itself."""
    file = project.shop(one_tool(**{key: ""}))

    with pytest.raises(InvalidTool, match=f"'{key}' is missing; only an @tool function"):
        load_host_tools_file(file)


def test_a_name_that_stands_twice_is_a_fault(project: Project) -> None:
    """R30: with the line where it stands already."""
    file = project.shop(one_tool() + one_tool(description="Another")[7:])

    with pytest.raises(InvalidTool) as caught:
        load_host_tools_file(file)

    assert str(caught.value) == (
        f"{file}:9: tools[1] 'look': line 3 has a tool of that name already"
    )


def test_a_file_that_cannot_be_read_is_named(project: Project) -> None:
    """R30: missing, a folder, or not text."""
    project.write("latin.yaml", "")
    Path("latin.yaml").write_bytes(b"tools: \xe9")
    for file, complaint in (
        ("none.yaml", "none.yaml: cannot be read: No such file or directory"),
        (".", ".: cannot be read: Is a directory"),
        ("latin.yaml", "latin.yaml: is not UTF-8 text; save it as UTF-8"),
    ):
        with pytest.raises(InvalidTool, match=complaint):
            load_host_tools_file(file)


def test_nothing_is_printed(project: Project, capfd: pytest.CaptureFixture[str]) -> None:
    """R30: standard output belongs to whoever speaks a protocol on it."""
    load_host_tools_file(project.shop())
    with pytest.raises(InvalidTool):
        parse_host_tools("tools: 5")

    assert capfd.readouterr() == ("", "")


def test_a_file_may_begin_with_a_byte_order_mark(project: Project) -> None:
    """R29: some editors put one there."""
    file = project.shop()
    file.write_text(QUERY, "utf-8-sig")

    assert load_host_tools_file(file).definitions[0].name == "shop.query"


def test_an_output_schema_is_checked_with_its_line(project: Project) -> None:
    """R5, R30: a file says what a tool gives, and a fault there has a line of its own."""
    file = project.shop(QUERY + "    output_schema:\n      type: object\n")
    (found,) = load_host_tools_file(file).definitions
    assert found.output_schema == {"type": "object"}

    file = project.shop(QUERY + "    output_schema:\n      type: lots\n")
    with pytest.raises(InvalidTool) as caught:
        load_host_tools_file(file)
    line = len(QUERY.splitlines()) + 2
    told = "tools[0] 'shop.query': output_schema: no valid JSON Schema at /type"
    assert str(caught.value).startswith(f"{file}:{line}: {told}")
