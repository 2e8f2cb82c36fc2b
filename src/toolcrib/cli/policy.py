"""`toolcrib policy`: check a policy file, explain its decisions, and try a draft on past calls."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from toolcrib.cli.arguments import read_arguments
from toolcrib.cli.output import fail, show, show_json, show_note
from toolcrib.cli.policy_preview import read_preview, show_preview
from toolcrib.cli.project_options import current_project
from toolcrib.cli.runtime_options import (
    HOST_OPTIONS,
    TOOL_OPTIONS,
    RuntimeOptions,
    takes_runtime_options,
)
from toolcrib.cli.service import TokenFile, Url, chosen_url, open_hosted_service, plain
from toolcrib.cli.tools import session_of
from toolcrib.errors import InvalidPolicy
from toolcrib.tools.identity import Place, ToolRef

if TYPE_CHECKING:
    from toolcrib.approval.policy import Explanation, Policy
    from toolcrib.approval.policy_lint import Caution, ToolArguments
    from toolcrib.approval.rule import Effect

app = typer.Typer(
    help="Check policy files, explain what they decide, and try drafts.", no_args_is_help=True
)

_COLOURS: dict[Effect, str] = {"allow": "green", "ask": "yellow", "deny": "red"}

File = Annotated[
    Path | None,
    typer.Argument(metavar="FILE", help="The policy, a YAML file; else that of the project."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON on stdout.")]


@app.command()
@takes_runtime_options(*TOOL_OPTIONS)
def check(
    options: RuntimeOptions,
    file: File = None,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
    strict: Annotated[bool, typer.Option("--strict", help="Fail on warnings too.")] = False,
) -> None:
    """Say whether FILE is a valid policy, and warn about rules that may surprise.

    With tools, of the project, of the options or of a server, a rule for a tool that is not there
    is an error, and so is one that denies or asks about an argument that its tool does not have.

    Example: toolcrib policy check policy.yaml --host-tools host-tools.yaml
    """
    from toolcrib.approval.policy_lint import cautions, unknown_arguments, unknown_tools

    file = _file(file)
    policy = _load(file)
    warnings = cautions(policy)
    has_tools = options.has_tools or chosen_url(url) is not None
    errors: tuple[Caution, ...] = ()
    if has_tools:
        listed = _listed_tools(options, url, token_file)
        known = {tool["name"] for tool in listed["tools"]} | set(listed["unavailable"])
        unknown = unknown_arguments(policy, map(_arguments_of, listed["tools"]))
        errors = unknown_tools(policy, known)
        errors += tuple(each.caution for each in unknown if each.is_error)
        warnings += tuple(each.caution for each in unknown if not each.is_error)
    for caution in errors:
        show_note(_caution_text(file, caution, "error"), "red")
    for caution in warnings:
        show_note(_caution_text(file, caution, "warning"), "yellow")
    if json:
        report = {"file": str(file), "rules": len(policy.rules), "warnings": warnings}
        show_json({**report, "errors": errors} if has_tools else report)
    else:
        counted = f"{len(errors)} errors, " if has_tools else ""
        show(f"{file}: {len(policy.rules)} rules, {counted}{len(warnings)} warnings")
    if errors or (strict and warnings):
        raise typer.Exit(1)


def _file(file: Path | None) -> Path:
    """The file of the command line, else the policy of the project."""
    project = current_project()
    chosen = file or (None if project is None else project.policy)
    if chosen is None:
        raise typer.BadParameter("name a policy: FILE, or policy: in toolcrib.yaml")
    return chosen


def _listed_tools(options: RuntimeOptions, url: str | None, token_file: Path | None) -> Any:
    # Without the policy and the hooks of the project: the tools are listed to check one.
    options = replace(options, policy=None, hooks=None)
    with (
        open_hosted_service(options, url, token_file) as service,
        session_of(service, is_temporary=True) as session,
    ):
        return plain(service.list_tools(session))


def _arguments_of(tool: dict[str, Any]) -> ToolArguments:
    from toolcrib.approval.policy_lint import ToolArguments
    from toolcrib.tools.argument_names import ArgumentNames

    spellings = {name: tuple(keys) for name, keys in tool["argument_names"].items()}
    names = ArgumentNames(tool["parameters"], spellings)
    return ToolArguments(tool["name"], tool["source"], tool["place"], names)


@app.command()
@takes_runtime_options(*TOOL_OPTIONS)
def explain(
    options: RuntimeOptions,
    tool: Annotated[str, typer.Option("--tool", help="The tool's name.")],
    file: File = None,
    arguments: Annotated[
        str, typer.Option("--arguments", help="The call's arguments, a JSON object.")
    ] = "{}",
    source: Annotated[
        str | None, typer.Option("--source", help="Where the tool comes from; else as it is.")
    ] = None,
    place: Annotated[
        Place | None, typer.Option("--place", help="Where the call runs; else as it is.")
    ] = None,
    kind: Annotated[
        str | None, typer.Option("--kind", help="The provider's capability that the tool is.")
    ] = None,
    provider: Annotated[
        str | None, typer.Option("--provider", help="Whose capability it is.")
    ] = None,
    principal: Annotated[
        str | None, typer.Option("--principal", help="Who asks; else nobody is named.")
    ] = None,
    group: Annotated[
        list[str] | None, typer.Option("--group", help="A group of theirs; may be repeated.")
    ] = None,
    read_only: Annotated[
        bool, typer.Option("--read-only", help="The tool changes nothing.")
    ] = False,
    requires_approval: Annotated[
        bool, typer.Option("--requires-approval", help="The tool itself asks for approval.")
    ] = False,
    json: Json = False,
) -> None:
    """Say what FILE decides about one call, and how each rule took part.

    With tools, of the project or of the options, what is known of the tool is taken from it, and a
    name that no tool has is told.

    Example: toolcrib policy explain policy.yaml --tool write_file --arguments '{"path": "a"}'
    """
    from toolcrib.approval.caller import Caller
    from toolcrib.approval.rule import Subject

    facts = _facts_of(tool, options)
    subject = Subject(
        tool=_ref(tool, source, place, facts),
        arguments=read_arguments(arguments),
        is_read_only=read_only or facts.get("is_read_only", False),
        requires_approval=requires_approval or facts.get("requires_approval", False),
        kind=kind,
        provider=provider,
        caller=Caller(principal, groups=frozenset(group or ())),
    )
    policy = _load(_file(file))
    _show_explanation(policy.explain(subject), json=json)
    if not facts:
        _warn_if_misspelt(tool, policy)


@app.command()
@takes_runtime_options(*HOST_OPTIONS)
def preview(
    options: RuntimeOptions,
    draft: Annotated[
        Path | None, typer.Option("--draft", metavar="FILE", help="The draft, a whole policy.")
    ] = None,
    rule: Annotated[
        str | None, typer.Option("--rule", metavar="YAML", help="One rule more, in its place.")
    ] = None,
    since: Annotated[
        str, typer.Option(metavar="TIME", help="Calls from then on: 7d, 12h, 2026-11-17T08:00.")
    ] = "7d",
    until: Annotated[str | None, typer.Option(metavar="TIME", help="Calls before then.")] = None,
    tool: Annotated[
        str | None, typer.Option(metavar="NAME", help="Calls of a tool, or of a pattern.")
    ] = None,
    principal: Annotated[
        str | None, typer.Option("--by", metavar="NAME", help="Calls of this principal.")
    ] = None,
    limit: Annotated[
        int, typer.Option("-n", "--limit", min=1, help="How many calls to look at, at most.")
    ] = 10_000,
    url: Url = None,
    token_file: TokenFile = None,
    json: Json = False,
) -> None:
    """Say which past calls a draft would have judged otherwise than the policy in force.

    The calls are those of a server, or of the store and the policy of the project or the options.
    Calls that depend on a redacted value are counted as unknown.

    Example: toolcrib policy preview --draft new.yaml --since 7d --url http://127.0.0.1:8420
    """
    if (draft is None) == (rule is None):
        raise typer.BadParameter("name what to try: --draft FILE or --rule YAML")
    text = None if draft is None else _draft_text(draft)
    params = {"since": since, "until": until, "tool": tool, "principal": principal, "rule": rule}
    if options.store is None and chosen_url(url) is None:
        raise typer.BadParameter("name past calls: --store FILE or --url URL, or in toolcrib.yaml")
    options = replace(options, hooks=None)
    with open_hosted_service(options, url, token_file, needs_tools=False) as service:
        result = read_preview(service, text, params, limit)
    if json:
        show_json(result)
    else:
        show_preview(result)


def _draft_text(file: Path) -> str:
    _load(file)
    return file.read_text("utf-8-sig")


def _ref(tool: str, source: str | None, place: Place | None, facts: dict[str, Any]) -> ToolRef:
    source = source or facts.get("source", "python")
    return ToolRef(tool, str(source), "", "", place or facts.get("place", "local"))


def _show_explanation(explanation: Explanation, *, json: bool) -> None:
    if json:
        show_json(explanation)
        return
    first, *rest = explanation.text().split("\n")
    show(first, _COLOURS[explanation.verdict.effect])
    for line in rest:
        show(line)


def _warn_if_misspelt(tool: str, policy: Policy) -> None:
    from toolcrib.approval.tool_names import did_you_mean

    names = {rule.tool for rule in policy.rules if rule.names_one_tool}
    if tool not in names and (hint := did_you_mean(tool, names)):
        show_note(f"no rule names {tool!r}{hint}", "yellow")


def _facts_of(name: str, options: RuntimeOptions) -> dict[str, Any]:
    """What is known of a tool of this machine; nothing when there is none of that name."""
    if not options.has_tools:
        return {}
    from toolcrib.approval.tool_names import did_you_mean

    listed = _listed_tools(options, None, None)
    facts = {tool["name"]: tool for tool in listed["tools"]}
    if name in facts:
        return facts[name]
    hint = did_you_mean(name, [*facts, *listed["unavailable"]])
    show_note(f"there is no tool {name!r}{hint}", "yellow")
    return {}


def _load(file: Path) -> Policy:
    from toolcrib.approval.policy_file import load_policy

    try:
        return load_policy(file)
    except InvalidPolicy as error:
        fail(str(error))


def _caution_text(file: Path, caution: Caution, level: str) -> str:
    where = f"{file}:{caution.line}" if caution.line else str(file)
    return f'{where}: {level}: rule "{caution.rule}": {caution.message}'
