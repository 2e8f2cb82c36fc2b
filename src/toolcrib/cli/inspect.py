"""`toolcrib inspect`: try tools at the terminal, with a form for their arguments."""

from __future__ import annotations

import shlex
import sys
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.approver import approver_for, is_terminal
from toolcrib.cli.form import ArgumentForm, read_line
from toolcrib.cli.other_server import Mcp, McpUrl, with_server
from toolcrib.cli.output import Exit, fail, show, show_note
from toolcrib.cli.results import RequestPlace, place_of, show_call
from toolcrib.cli.runtime_options import HOST_OPTIONS, RuntimeOptions, takes_runtime_options
from toolcrib.cli.service import TokenFile, Url, chosen_url, open_hosted_service, plain
from toolcrib.cli.tools import make_call, session_of
from toolcrib.errors import EndOfInput, Refused

if TYPE_CHECKING:
    from collections.abc import Sequence

    from toolcrib.runtime.blocking_operations import BlockingOperations


@takes_runtime_options(*HOST_OPTIONS)
def inspect(
    options: RuntimeOptions,
    tool: Annotated[
        str | None, typer.Argument(metavar="TOOL", help="The tool to begin with; else choose.")
    ] = None,
    mcp: Mcp = None,
    mcp_url: McpUrl = None,
    url: Url = None,
    token_file: TokenFile = None,
) -> None:
    """Try tools at the terminal, with a form for their arguments.

    Calls go through policy and approval like any others. After a result, Enter fills the form
    again with what was typed.

    Example: toolcrib inspect stock_level

    Example: toolcrib inspect --mcp "npx -y @modelcontextprotocol/server-everything"
    """
    if not is_terminal():
        fail(
            "inspect fills in a form at a terminal; elsewhere use: "
            f"toolcrib tools call {tool or 'TOOL'} KEY=VALUE",
            Exit.USAGE,
        )
    options = with_server(options, mcp, mcp_url)
    options = replace(options, approver=approver_for("ask", has_store=options.store is not None))
    place = place_of(options.store, chosen_url(url), token_file)
    with (
        open_hosted_service(options, url, token_file) as service,
        session_of(service) as session_id,
    ):
        try:
            _Inspection(service, session_id, place, _own_options(tool)).run(tool)
        except EndOfInput:
            return


def _own_options(tool: str | None) -> list[str]:
    """The options of this command, for a command that does the same."""
    words = sys.argv[sys.argv.index("inspect") + 1 :] if "inspect" in sys.argv else []
    if tool in words:
        words.remove(tool)
    return words


class _Inspection:
    """Chooses a tool, fills in its form, calls it, and begins again."""

    def __init__(
        self,
        service: BlockingOperations,
        session_id: str,
        place: RequestPlace | None,
        options: Sequence[str],
    ) -> None:
        self._service = service
        self._session_id = session_id
        self._place = place
        self._options = options
        self._forms: dict[str, ArgumentForm] = {}

    def run(self, name: str | None) -> None:
        """Go on until the person ends it. Raises `EndOfInput`."""
        while True:
            facts = self._tool(name) if name is not None else self._choose()
            name = None
            if facts is None:
                continue
            self._head(facts)
            self._try(facts)

    def _choose(self) -> dict[str, Any] | None:
        listed = plain(self._service.list_tools(self._session_id))
        tools: list[dict[str, Any]] = listed["tools"]
        if not tools:
            fail("there are no tools to inspect")
        for number, tool in enumerate(tools, 1):
            show(f"{number:>3}  {tool['name']}: {tool['description'].splitlines()[0]}")
        answer = read_line("\nTool, by name or number (q ends) > ")
        if answer == "q":
            raise EndOfInput
        if answer.isdecimal() and 1 <= int(answer) <= len(tools):
            return tools[int(answer) - 1]
        return self._tool(answer) if answer else None

    def _tool(self, name: str) -> dict[str, Any] | None:
        try:
            return plain(self._service.get_tool(self._session_id, name))
        except Refused as error:
            show_note(str(error), "red")
            return None

    def _head(self, facts: dict[str, Any]) -> None:
        marks = [name for name in ("requires_approval", "is_read_only") if facts[name]]
        show(" ".join(["", facts["name"], *marks]).strip(), "bold")
        show_note(facts["description"])
        show_note("Enter takes the value in brackets; - leaves one out; Ctrl-D ends.\n", "dim")

    def _try(self, facts: dict[str, Any]) -> None:
        name = facts["name"]
        form = self._forms.setdefault(name, ArgumentForm(facts["parameters"]))
        form.fill()
        while True:
            result = self._call(name, form)
            if faulty := _faulty_fields(result):
                form.fill(faulty)
                continue
            match read_line("\nEnter: again, t: another tool, q: end > "):
                case "q":
                    raise EndOfInput
                case "t":
                    return
                case _:
                    form.fill()

    def _call(self, name: str, form: ArgumentForm) -> dict[str, Any]:
        arguments = form.arguments()
        if not form.has_secret:
            words = ["toolcrib", "tools", "call", name, *form.words(), *self._options]
            show_note(f"\n{shlex.join(words)}", "dim")
        result = make_call(self._service, self._session_id, name, arguments)
        show_call(result, self._session_id, self._place)
        return result


def _faulty_fields(result: dict[str, Any]) -> set[str]:
    """The arguments that the call itself found wrong."""
    failure = result["failure"]
    if failure is None or failure["kind"] != "invalid_arguments":
        return set()
    pointers = [str(fault["pointer"]) for fault in failure["faults"] or ()]
    return {pointer.split("/")[1] for pointer in pointers if "/" in pointer}
