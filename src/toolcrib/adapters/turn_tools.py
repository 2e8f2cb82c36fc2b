"""The tools of a turn: which are offered to the model, which are withheld, and their executor.

`Governance` (policy, approver, hooks and limits) decides what may run. A hosted tool that the
provider cannot run is replaced by its fallback, if it has one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import MISSING, dataclass, replace
from dataclasses import fields as fields_of
from typing import TYPE_CHECKING, Any, Literal, cast

from toolcrib.adapters.credentials import Credentials
from toolcrib.adapters.hosted_calls import HostedCalls
from toolcrib.adapters.support import options_of
from toolcrib.adapters.tool_calls import AnyProviderTool, ClientCodec, ItemClassifier
from toolcrib.adapters.tool_declarations import (
    AnyCodec,
    ClientDeclaration,
    HostedDeclaration,
    ToolDeclarations,
    as_hosted,
    check_functions,
    check_provider,
    codec_of,
    declare,
)
from toolcrib.adapters.type_fit import check_arguments, check_declared
from toolcrib.approval.caller import NOBODY, Caller
from toolcrib.approval.globs import name_matches
from toolcrib.approval.policy import Policy, default_verdict
from toolcrib.approval.rule import Rule, Subject, Verdict
from toolcrib.calls.call import Call
from toolcrib.calls.executor import Executor
from toolcrib.calls.hooks import CALL_EVENTS, PROMPT_EVENTS
from toolcrib.errors import PromptEvaluationError, UsageError
from toolcrib.tools.fallback import AnyFallback, as_fallback, local_tool
from toolcrib.tools.mcp import McpConfig, mcp_gate
from toolcrib.tools.prepared_tool import PreparedTool, is_available, prepare
from toolcrib.tools.provider_tools import HostedTool, ProviderTool, kind_of

if TYPE_CHECKING:
    from toolcrib.approval.approvers import Approver
    from toolcrib.approval.question import Responder
    from toolcrib.calls.execute import Runner
    from toolcrib.calls.hooks import Hooks
    from toolcrib.calls.outcome import Limits
    from toolcrib.prompt.prompt import RenderedPrompt
    from toolcrib.session.session import Session
    from toolcrib.tools.context import ToolContext
    from toolcrib.tools.identity import BindTo, Place, ToolRef
    from toolcrib.tools.tool import Tool


@dataclass(frozen=True, slots=True)
class Governance:
    """What an executor is given besides its tools."""

    policy: Policy | None = None
    approver: Approver | None = None
    responder: Responder | None = None
    """Whom handlers ask."""
    hooks: Hooks | None = None
    limits: Limits | None = None
    runners: Mapping[Place, Runner] | None = None
    """Who runs tools in places other than this process."""
    caller: Caller | None = None
    """On whose behalf the model makes its calls."""
    bind_to: BindTo = "code"
    """Whether decisions are bound to the code of the tools, or to their version in its place."""


@dataclass(frozen=True, slots=True)
class WithheldTool:
    """A tool that is not offered, and what is offered in its place."""

    tool: ToolRef
    reason: str
    replaced_by: ToolRef | None = None
    sections: tuple[str, ...] = ()
    """The sections of the prompt that are left out with it, by path."""


def fallback_of(tool: Tool[Any, Any], why: UsageError) -> Tool[Any, Any] | None:
    """The local tool to offer, because the provider cannot do this one; None when none is named.

    Raises `UsageError` when an option is set that the local tool would ignore.
    """
    named = fallback_given(tool)
    if named is None:
        return None
    hosted = cast("HostedTool[Any]", tool)
    fallback, config = as_fallback(named), hosted.config
    ignored = fallback.not_honoured(
        [*_options(config), *(f"extra.{name}" for name in hosted.extra)]
    )
    if ignored:
        raise UsageError(
            f"{why}. The fallback of {tool.name!r} cannot take its place, because it does not "
            f"honour {', '.join(ignored)}; leave that out, or give a Fallback that honours it"
        )
    return local_tool(tool.name, fallback.make(config))


def fallback_given(tool: Tool[Any, Any]) -> AnyFallback[Any]:
    """What a tool names for providers that cannot do it."""
    return cast("HostedTool[Any]", tool).fallback if isinstance(tool, HostedTool) else None


def _options(config: Any) -> Mapping[str, Any]:
    """The options that are set. Of a kind that the matrix does not know, every field that is not
    as it is by default.
    """
    return options_of(config) or {
        option.name: getattr(config, option.name)
        for option in fields_of(config)
        if option.default is MISSING or getattr(config, option.name) != option.default
    }


class PreparedTools:
    """The prepared form of the tools that an adapter has met: preparing one costs as much as
    building its schema, and most prompts are evaluated many times with the same tools.
    """

    def __init__(self, capacity: int = 256) -> None:
        self._capacity = capacity
        self._prepared: dict[int, PreparedTool] = {}

    def get(self, tool: Tool[Any, Any]) -> PreparedTool:
        """The tool, prepared now or before."""
        # An entry keeps its tool alive, so no other tool can have the same id.
        prepared = self._prepared.get(id(tool))
        if prepared is None:
            prepared = prepare(tool)
            if len(self._prepared) >= self._capacity:
                self._prepared = {}
            self._prepared[id(tool)] = prepared
        return prepared


class PromptExecutor(Executor):
    """An executor whose contexts lead back to the prompt and the adapter that evaluates it."""

    hook_events = CALL_EVENTS | PROMPT_EVENTS

    def __init__(
        self,
        session: Session,
        tools: Sequence[PreparedTool],
        governance: Governance,
        *,
        prompt: Any,
        adapter: Any,
        is_inherited: bool = False,
    ) -> None:
        hooks = governance.hooks
        if is_inherited and hooks is not None:
            # They may name tools that this prompt does not have.
            hooks = hooks.only({tool.ref.name: tool for tool in tools})
        super().__init__(
            session,
            tools,
            hooks=hooks,
            policy=governance.policy,
            approver=governance.approver,
            responder=governance.responder,
            limits=governance.limits,
            runners=governance.runners,
            bind_to=governance.bind_to,
        )
        self.governance = governance
        self._prompt = prompt
        self._adapter = adapter
        self.deadline: float | None = None
        """When the prompt must be answered, in the running loop's time."""

    def provider_call(self, tool: PreparedTool, call_id: str, turn: int) -> Call:
        """A call that the provider ran, with the context that its output hook gets: the one that a
        handler would have.
        """
        caller = self.governance.caller
        call = Call(
            call_id, tool.ref.name, b"{}", self.session, caller=caller, deadline=self.deadline
        )
        call.turn = turn
        call.resolve(tool)
        call.context = self._context(call)
        return call

    def _context(self, call: Call) -> ToolContext:
        context = super()._context(call)
        context.prompt = self._prompt
        context.adapter = self._adapter
        return context


OnUnsupported = Literal["raise", "drop"]
"""What becomes of a prompt with a tool that the provider does not have."""


@dataclass(frozen=True, slots=True)
class ProviderProfile:
    """What an adapter knows of its provider, whatever the prompt."""

    provider: str
    codecs: Mapping[str, AnyCodec]
    client_codecs: Sequence[ClientCodec]
    stand_ins: Sequence[HostedDeclaration]
    """For hosted tools that the provider may run although a prompt does not declare them."""
    make_classifier: Callable[[ToolDeclarations, ProviderProfile], ItemClassifier]
    on_unsupported: OnUnsupported = "raise"
    function_options: frozenset[str] = frozenset()
    """The options of functions that the provider takes."""


@dataclass(frozen=True, slots=True)
class TurnTools:
    """The tools of a turn, ready to be declared and called."""

    provider: str
    executor: PromptExecutor
    declared: ToolDeclarations
    classifier: ItemClassifier
    credentials: Credentials
    hosted: HostedCalls
    withheld: tuple[WithheldTool, ...]


def open_turn(
    prompt: RenderedPrompt[Any],
    session: Session,
    governance: Governance,
    profile: ProviderProfile,
    prepared: PreparedTools,
    make_executor: Callable[[Sequence[PreparedTool]], PromptExecutor],
) -> TurnTools:
    """Prepare the tools of a prompt. Raises before anything is sent."""
    selection = _Selection(prompt.name, session, governance, profile, prepared)
    hosted_tools = selection.hosted(prompt.hosted_tools)
    tools = selection.with_fallbacks(prompt.tools)
    client_run = selection.client_run(tools)
    provider = profile.provider
    gates = [mcp_gate(hosted.tool, provider=provider) for hosted in hosted_tools if hosted.is_mcp]
    executor = make_executor([*map(prepared.get, tools), *map(prepare, gates)])
    apart = {client.tool.name for client in client_run} | {gate.name for gate in gates}
    functions = [
        executor.tools[function.name]
        for function in executor.declarations()
        if function.name not in apart
    ]
    kinds = {hosted.tool.kind for hosted in hosted_tools} | {run.codec.kind for run in client_run}
    selection.check(lambda: check_functions(functions, kinds, profile))
    declared = declare(
        functions,
        client_run,
        hosted_tools,
        prompt_name=prompt.name,
    )
    classifier = profile.make_classifier(declared, profile)
    credentials = Credentials(declared.secrets)
    hosted = HostedCalls(
        session,
        classifier.format,
        provider=provider,
        prompt_name=prompt.name,
        offered=selection.offered,
        make_call=executor.provider_call,
        credentials=credentials,
        caller=governance.caller,
    )
    withheld = tuple(selection.withheld)
    return TurnTools(provider, executor, declared, classifier, credentials, hosted, withheld)


def why_withheld(
    tool: PreparedTool, session: Session, governance: Governance, provider: str
) -> str | None:
    """The reason not to offer a tool that this provider runs; None when it may be offered."""
    is_listed = any(name_matches(name, tool.ref.name) for name in session.need_user_approve_tools)
    if is_listed and not asks_each_time(tool):
        return "the session asks before this tool runs, and nobody can be asked on the provider"
    return why_not_offered(tool, governance.policy, governance.caller or NOBODY, provider)


def why_not_offered(
    tool: PreparedTool, policy: Policy | None, caller: Caller, provider: str
) -> str | None:
    """The reason of a policy not to offer a tool that this provider runs to the prompts of a
    caller; None when it may be offered.
    """
    if policy is None and not tool.tool.requires_approval:
        return None
    is_asked = asks_each_time(tool)
    subject = Subject(
        tool=tool.ref,
        arguments={},
        is_read_only=tool.tool.is_read_only,
        requires_approval=tool.tool.requires_approval,
        kind=kind_of(tool.tool),
        provider=provider,
        caller=caller,
    )
    if policy is not None and not is_asked:
        policy = unseen_policy(policy)
    of_kind = _verdict_on_kind(policy, subject) if policy else None
    if of_kind is not None and not (is_asked and of_kind.effect == "ask"):
        return f"{of_kind.reason} It is of the kind {subject.kind}."
    verdict = policy.judge(subject) if policy else default_verdict(subject)
    match verdict.effect:
        case "allow":
            return None
        case "deny":
            return verdict.reason
        case "ask" if is_asked:
            return None
        case "ask":
            return (
                f"{verdict.reason} Nobody can be asked on the provider; an allow rule that names "
                "the tool would offer it."
            )


def _verdict_on_kind(policy: Policy, subject: Subject) -> Verdict | None:
    """What forbids the kind of a tool by name, or asks about it: another name does not let it
    through.
    """
    if subject.kind in (None, subject.tool.name):
        return None
    strict = tuple(rule for rule in policy.rules if rule.effect != "allow")
    named = replace(subject.tool, name=subject.kind)
    subject = replace(subject, tool=named, requires_approval=False)
    verdict = replace(policy, rules=strict, unmatched="allow").judge(subject)
    return None if verdict.effect == "allow" else verdict


def asks_each_time(tool: PreparedTool) -> bool:
    """Whether the provider stops before every call, so that the session can decide about it."""
    config = getattr(tool.tool, "config", None)
    return isinstance(config, McpConfig) and config.require_approval == "always"


def unseen_policy(policy: Policy) -> Policy:
    """The policy for calls whose arguments nobody sees before they run: what it forbids or asks
    about for some arguments, it forbids or asks about for all.
    """
    return replace(policy, rules=tuple(_without_arguments(rule) for rule in policy.rules))


def _without_arguments(rule: Rule) -> Rule:
    return rule if rule.effect == "allow" or not rule.arguments else replace(rule, arguments={})


class _Selection:
    """Selects the tools of a prompt that can be offered, and replaces or withholds the others."""

    def __init__(
        self,
        prompt_name: str,
        session: Session,
        governance: Governance,
        profile: ProviderProfile,
        prepared: PreparedTools,
    ) -> None:
        self._prompt_name = prompt_name
        self._session = session
        self._governance = governance
        self._profile = profile
        self._prepared = prepared
        self.offered: dict[str, PreparedTool] = {}
        self.withheld: list[WithheldTool] = []
        self._fallbacks: list[Tool[Any, Any]] = []

    def hosted(self, tools: Sequence[Tool[Any, Any]]) -> list[HostedDeclaration]:
        """The provider-run tools to offer. Their calls cannot be stopped once they are offered,
        so this is their gate.
        """
        declarations: list[HostedDeclaration] = []
        for tool in map(self._prepared.get, tools):
            declaration = self._offer(tool)
            if declaration is not None:
                self.offered[tool.ref.name] = tool
                declarations.append(declaration)
        return declarations

    def with_fallbacks(self, tools: Sequence[Tool[Any, Any]]) -> list[Tool[Any, Any]]:
        """The tools that this process runs, with those that take the place of hosted ones."""
        names = {tool.name for tool in tools}
        for local in self._fallbacks:
            if local.name in names:
                raise self._unrenderable(
                    UsageError(f"two tools are named {local.name!r}, and one is a fallback")
                )
            names.add(local.name)
        return [*tools, *self._fallbacks]

    def client_run(self, tools: Sequence[Tool[Any, Any]]) -> list[ClientDeclaration]:
        """The tools that the provider defines and this process runs. One without a codec is offered
        as a function, like any other local tool.
        """
        bound = [cast("AnyProviderTool", tool) for tool in tools if isinstance(tool, ProviderTool)]
        for tool in bound:
            self.check(lambda tool=tool: check_provider(tool, self._profile.provider))
        declarations = [
            ClientDeclaration(tool, codec)
            for tool in bound
            for codec in self._profile.client_codecs
            if codec.speaks_for(tool)
        ]
        for client in declarations:
            self.check(lambda client=client: check_arguments(client.tool, client.codec))
        return declarations

    def _offer(self, tool: PreparedTool) -> HostedDeclaration | None:
        if is_available(tool.tool):
            reason = why_withheld(tool, self._session, self._governance, self._profile.provider)
        else:
            reason = "it says that it cannot be used now"
        if reason is not None:
            self.withheld.append(WithheldTool(tool.ref, reason))
            return None
        try:
            return self._hosted(tool)
        except UsageError as error:
            self._replace(tool, error)
            return None

    def _replace(self, tool: PreparedTool, why: UsageError) -> None:
        """Offer the fallback of a tool that the provider cannot do, or nothing, or refuse."""
        try:
            local = fallback_of(tool.tool, why)
        except UsageError as error:
            raise self._unrenderable(error) from error
        if local is None and not self._may_drop(tool):
            raise self._unrenderable(why) from why
        if local is not None:
            self._fallbacks.append(local)
        replaced_by = prepare(local).ref if local else None
        self.withheld.append(WithheldTool(tool.ref, str(why), replaced_by))

    def _hosted(self, tool: PreparedTool) -> HostedDeclaration:
        view = as_hosted(tool.tool, provider=self._profile.provider)
        codec = codec_of(view.kind, self._profile)
        if tool.tool.params_type or tool.tool.result_type:
            check_declared(tool.tool, codec)
        declaration = HostedDeclaration(view, codec)
        if fallback_given(tool.tool) or self._may_drop(tool):
            # An option that the provider cannot do must show now, while it can be replaced.
            declaration.contribute()
        return declaration

    def _may_drop(self, tool: PreparedTool) -> bool:
        declared = tool.tool
        is_optional = (
            isinstance(declared, HostedTool) and cast("HostedTool[Any]", declared).optional
        )
        return is_optional or self._profile.on_unsupported == "drop"

    def check(self, check: Callable[[], None]) -> None:
        """Turn what a check refuses into the error of a prompt that cannot be rendered."""
        try:
            check()
        except UsageError as error:
            raise self._unrenderable(error) from error

    def _unrenderable(self, error: UsageError) -> PromptEvaluationError:
        return PromptEvaluationError(str(error), prompt_name=self._prompt_name, phase="render")
