"""Every exception of the package, in one tree.

    ToolcribError
    ├── UsageError (ValueError)     the program set something up wrongly: raised at once
    │   ├── InvalidTool             a tool's declaration breaks a rule
    │   │   └── DuplicateTool       two tools with one name
    │   ├── UnsupportedOption       an option of a tool that the provider does not have
    │   ├── WrongProvider           a tool that is bound to another provider
    │   ├── InvalidHooks            hooks for a tool that is not there, or not callable
    │   ├── InvalidYaml             a YAML document that is not plain data
    │   ├── InvalidPolicy           a policy rule or file that cannot be read
    │   ├── InvalidProject          a project file that cannot be used
    │   ├── InvalidPrompt           a prompt or section that cannot be rendered
    │   ├── InvalidDecision         a decision that does not fit its request
    │   │   └── DecisionForbidden   a decision that somebody else has to make
    │   ├── InvalidAnswer           an answer that does not fit its question
    │   ├── InvalidState            a resumable state that cannot be restored
    │   └── InvalidEvent            an event that a tool may not emit
    ├── CallFailed                  a call ended in a failure and the caller asked for exceptions
    ├── SchemaMismatch (ValueError) arguments or a result that do not fit a JSON Schema
    ├── NotJson (ValueError)        text that is not JSON where JSON is needed
    ├── OutputMismatch (ValueError) an answer that is not of the output type of its prompt
    ├── PromptEvaluationError       a prompt got no answer; `phase` says where it stopped
    │   └── ContainerGone           the container that it needs has expired, or never was
    ├── ReplyBroken                 a model's reply ended too soon or is malformed
    ├── DeadlinePassed              a prompt's time was over before the model replied
    ├── DownloadFailed              a file that model-written code made was not saved
    ├── PullFailed                  a model could not be fetched; what there is of it is kept
    ├── PatchFailed                 a patch does not fit its file, which is as it was
    ├── Refused                     an operation of a runtime that was not done; `kind` says why
    │   ├── HttpRefused             a refusal that HTTP has a status of its own for
    │   └── SessionElsewhere        another process writes the session; `kind` is conflict
    ├── ReplicaUnreachable          another replica cannot be asked; it has done nothing
    ├── AnswerLost                  another replica did not answer; what it did is not known
    ├── SessionNotHere              an operation came to a replica that has let the session go
    ├── ClientGone                  the connected client left before it answered
    ├── ClientFailed                the connected client ran a call, which failed there
    ├── EditorFailed                the connected editor could not do what it was asked for
    ├── EndOfInput                  the person at the terminal left
    ├── ConnectionLost              the connection to an MCP server is over
    ├── CredentialFailed            no credential for an MCP server could be got or kept
    ├── ApiFault                    a request that the embedded provider refuses, as its API says it
    ├── BackendFailed               a model backend of the embedded provider could not answer
    ├── WebUnavailable              a web source of the embedded provider cannot be reached
    ├── UnreadableDocument          a document without readable text
    ├── EgressRefused               an address that a caller chose and the host does not allow
    ├── SandboxUnavailable          nothing here can confine a program
    ├── SandboxFailed               a sandbox was not made; nothing has run
    ├── SandboxedToolFailed         a handler's confined process raised, crashed or met a limit
    ├── HookFailed                  a hook returned something it may not return
    │   └── OutputHookFailed        handle_provider_output raised, or returned no ToolResult
    ├── QuestionUnanswered          a question of a handler got no answer
    │   ├── QuestionDeclined        the person does not want to answer
    │   ├── QuestionCancelled       the person left it, or it was withdrawn
    │   ├── QuestionExpired         nobody answered in time
    │   └── NobodyToAsk             nobody is there who could answer
    ├── ToolTimeout (TimeoutError)  a tool outlived its time limit
    ├── StoreError                  a session cannot be read or written
    │   ├── SessionNotFound
    │   ├── LeaseHeld               another process writes this session
    │   ├── LeaseLost               this process no longer writes this session
    │   └── LedgerBroken            the hash chain does not hold
    └── ControlFlow                 signals, not faults: hooks never see them
        ├── CallEnded               the call is over, with the kind of failure that is named
        ├── ApprovalRequired        the call waits for a person
        ├── ResultDeferred          the result of the call comes later, from outside
        └── ModelRetry              the model should call again with other arguments

What the model should see of a failure is data, not an exception: `toolcrib.failures.Failure`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from toolcrib.failures import (
    FAILURE_KINDS,
    EvaluationPhase,
    EvaluationReason,
    Failure,
    FailureKind,
    Fault,
    KeptWork,
    RefusalKind,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from toolcrib.approval.decision import ApprovalRequest
    from toolcrib.tools.code_interpreter import GeneratedFile


class ToolcribError(Exception):
    """Base of everything this package raises on purpose."""


class UsageError(ToolcribError, ValueError):
    """The program used the package wrongly; the message says what to change."""


class InvalidTool(UsageError):
    """A tool's declaration breaks a rule. Raised when the tool is declared or registered."""


class DuplicateTool(InvalidTool):
    """Two tools were registered under one name."""


class UnsupportedOption(UsageError):
    """An option that this provider cannot honour. Raised before anything is sent, because a
    dropped option (a domain filter, say) would be a silent change of policy.
    """

    def __init__(self, kind: str, option: str, provider: str, why: str) -> None:
        super().__init__(f"{provider} cannot do {option} of {kind}: {why}")
        self.kind = kind
        self.option = option
        self.provider = provider


class WrongProvider(UsageError):
    """A tool that is bound to a provider other than the adapter's."""


class InvalidHooks(UsageError):
    """Hooks name a tool that is not registered, or are not callable."""


class InvalidYaml(UsageError):
    """A YAML document is malformed or holds more than plain data. `line` is where, if known."""

    def __init__(self, message: str, *, line: int | None = None) -> None:
        super().__init__(message)
        self.line = line


class InvalidPolicy(UsageError):
    """A policy cannot be used. `file` and `line` point at the fault when it came from a file."""

    def __init__(self, message: str, *, file: str | None = None, line: int | None = None) -> None:
        where = f"{file}:{line}: " if file and line else f"{file}: " if file else ""
        super().__init__(where + message)
        self.file = file
        self.line = line


class InvalidProject(UsageError):
    """A project file cannot be used. The message has a line for each fault, with its place."""


class InvalidPrompt(UsageError):
    """A prompt, a section or an override of one cannot be rendered. Nothing has been sent."""


class InvalidDecision(UsageError):
    """A decision that does not fit: unknown, settled already, other digest. `faults` of an edit."""

    faults: tuple[Fault, ...] = ()


class DecisionForbidden(InvalidDecision):
    """A decision, or the grant with it, that this person may not make; the request stays open."""


class InvalidAnswer(UsageError):
    """An answer that does not fit its question, or comes too late. `faults` are in its value."""

    faults: tuple[Fault, ...] = ()


class InvalidState(UsageError):
    """A resumable state is malformed, was changed, or does not belong to this session."""


class InvalidEvent(UsageError):
    """A tool tried to emit an event that is too large, misnamed, too late or one too many."""


class CallFailed(ToolcribError):
    """A call ended in `failure`. Raised only where the caller asked for exceptions."""

    def __init__(self, failure: Failure) -> None:
        super().__init__(f"{failure.kind}: {failure.message}")
        self.failure = failure


class SchemaMismatch(ToolcribError, ValueError):
    """The input does not fit the schema; `errors` are those of jsonschema-rs. `reason` stands for
    errors that would cost too much to collect.
    """

    def __init__(self, errors: tuple[Any, ...], reason: str | None = None) -> None:
        super().__init__(reason or f"{len(errors)} faults in the arguments")
        self.errors = errors
        self.reason = reason


class NotJson(ToolcribError, ValueError):
    """The input is not JSON; the message says where reading it stopped."""


class OutputMismatch(ToolcribError, ValueError):
    """An answer is not the JSON that was asked for. The message says where, without the answer."""


class ReplyBroken(ToolcribError):
    """A model's reply ended too soon, or is not what its API promises. Never leaves the adapter."""

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


class DeadlinePassed(ToolcribError):
    """The deadline of a prompt passed before the model replied. Never leaves the adapter."""


class PromptEvaluationError(KeptWork, ToolcribError):
    """A prompt was not answered. `phase` says where: before a request (`render`), while asking
    (`request`), in what came back (`response`, `parse`), in a tool (`tool`), or at a limit
    (`budget`). `reason` says which limit, or what the model did in place of answering.
    `request_id` is the provider's, where there is one. The text names the prompt and the request.
    """

    def __init__(
        self,
        message: str,
        *,
        prompt_name: str,
        phase: EvaluationPhase,
        request_id: str | None = None,
        reason: EvaluationReason | None = None,
    ) -> None:
        where = f"prompt {prompt_name!r}: " if prompt_name else ""
        message = message.removeprefix(where)
        super().__init__(where + message + (f" (request {request_id})" if request_id else ""))
        self.prompt_name = prompt_name
        self.phase: EvaluationPhase = phase
        self.request_id = request_id
        self.reason: EvaluationReason | None = reason


class ContainerGone(PromptEvaluationError):
    """A container has expired, was deleted, or never was; `renew_container` makes a new one."""


class DownloadFailed(ToolcribError):
    """A generated file could not be fetched or written. `saved` are the files that were."""

    def __init__(self, message: str, *, file: GeneratedFile, saved: Sequence[Path]) -> None:
        super().__init__(message)
        self.file = file
        self.saved = tuple(saved)


class PullFailed(ToolcribError):
    """A model could not be fetched; what there is of it is kept for the next try."""


class PatchFailed(ToolcribError):
    """A patch was not applied, and nothing was changed. The message says why, for the model."""


class Refused(ToolcribError):
    """An operation that a runtime did not do. The message is for whoever asked for it, over
    whichever transport, and holds no secret; `facts` is what a program may want besides.
    """

    def __init__(
        self, kind: RefusalKind, message: str, facts: Mapping[str, Any] | None = None
    ) -> None:
        super().__init__(message)
        self.kind: RefusalKind = kind
        self.message = message
        self.facts = dict(facts or {})


class HttpRefused(Refused):
    """A refusal that HTTP has a status of its own for."""

    def __init__(self, status: int, kind: RefusalKind, message: str) -> None:
        super().__init__(kind, message)
        self.status = status


class SessionElsewhere(Refused):
    """The refusal of what only the writer of a session can do, while another process is that."""

    def __init__(self, message: str = "another process has the session open") -> None:
        super().__init__("conflict", message)


class ReplicaUnreachable(ToolcribError):
    """Another replica cannot be asked, or refuses to be; it has done nothing."""


class AnswerLost(ToolcribError):
    """Another replica was asked and has not answered; whether it did something is not known."""


class SessionNotHere(ToolcribError):
    """An operation was forwarded for a session that this replica does not have open."""


class ClientGone(ToolcribError):
    """The client that was asked to run a call is no longer there."""


class ClientFailed(ToolcribError):
    """The client ran a call and reports that it failed."""


class EditorFailed(ToolcribError):
    """The editor was asked for something and reports that it failed."""


class EndOfInput(ToolcribError):
    """The person left, or the terminal is gone. Nothing was answered."""


class ConnectionLost(ToolcribError):
    """The connection to an MCP server is over; the message says why, if that is known."""


class CredentialFailed(ToolcribError):
    """No credential for an MCP server could be got or kept. The message repeats no secret;
    `is_refused` says that the authorization server does not take the credential any more.
    """

    def __init__(self, message: str, *, is_refused: bool = False) -> None:
        super().__init__(message)
        self.is_refused = is_refused


class ApiFault(ToolcribError):
    """An error in the form that clients of the Responses API expect."""

    def __init__(
        self,
        status: int,
        message: str,
        *,
        kind: str = "invalid_request_error",
        code: str | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.kind = kind
        self.code = code
        self.param = param

    @property
    def body(self) -> dict[str, Any]:
        """The JSON of the HTTP response."""
        fields = {"type": self.kind, "param": self.param, "code": self.code}
        return {"error": {"message": self.message, **fields}}


class BackendFailed(ToolcribError):
    """A model backend could not answer. Clients see the message, so it must hold no secret."""


class WebUnavailable(ToolcribError):
    """A web source cannot be reached. Clients see the message, so it must hold no secret."""


class UnreadableDocument(ToolcribError):
    """The text of a document cannot be read."""


class EgressRefused(ToolcribError):
    """An address that a caller or a model chose, and that the host does not allow. The message
    names the host as it was written, not where it leads to. `allow` is what the host would allow.
    """

    def __init__(self, host: str, reason: str, allow: str | None) -> None:
        shown = "".join(letter if letter.isprintable() else "?" for letter in host[:255])
        advice = "" if allow is None else f"; the host can allow it with `--allow-egress {allow}`"
        super().__init__(f"no connection to {shown!r}: {reason}{advice}")
        self.host = host


class SandboxUnavailable(ToolcribError):
    """Nothing here can confine a program, so it was not run. The message says what to install."""


class SandboxFailed(ToolcribError):
    """A sandbox could not be made for one command, which has not run."""


class SandboxedToolFailed(ToolcribError):
    """A handler in a sandbox gave no result: its process crashed or met a limit. What the handler
    itself raised is a subclass with the name of the exception.
    """


class HookFailed(ToolcribError):
    """A hook returned a value of the wrong type. The tool does not run."""


class OutputHookFailed(HookFailed):
    """`handle_provider_output` raised, or returned something that is no `ToolResult`. The call is a
    failure of kind `hook_error`.
    """


class QuestionUnanswered(ToolcribError):
    """A question that a handler asked got no answer; the call fails unless it catches this."""


class QuestionDeclined(QuestionUnanswered):
    """The person was asked and does not want to answer."""


class QuestionCancelled(QuestionUnanswered):
    """The person left without an answer, or the question was withdrawn."""


class QuestionExpired(QuestionUnanswered):
    """Nobody answered in time."""


class NobodyToAsk(QuestionUnanswered):
    """Nobody is there who could answer, or the client cannot show a question."""


class ToolTimeout(ToolcribError, TimeoutError):
    """A call passed its time limit. Post hooks see it as the result. A `TimeoutError` that a
    handler raises itself is not this one: it is the tool's own failure.
    """

    def __init__(self, message: str, *, still_running: bool = False) -> None:
        super().__init__(message)
        self.still_running = still_running


class StoreError(ToolcribError):
    """A session could not be read from or written to its store."""


class SessionNotFound(StoreError):
    """The store has no session of that id."""


class LeaseHeld(StoreError):
    """Another live process writes this session; only one may."""


class LeaseLost(StoreError):
    """Another process has taken over this session; nothing more is written by this one."""


class LedgerBroken(StoreError):
    """The hash chain of a ledger does not hold. `seq` is the first record that is wrong."""

    def __init__(self, message: str, *, seq: int | None = None) -> None:
        super().__init__(message)
        self.seq = seq


class ControlFlow(ToolcribError):
    """A signal that steers a call. Post hooks do not see it and cannot swallow it."""


class CallEnded(ControlFlow):
    """The call is over and failed with `kind`. Raise it in a handler or a hook when the kind of the
    failure is known: `CallEnded("unavailable", "The printer is switched off.")`.

    The model reads the message; post hooks do not run. Any other exception of a handler is a
    `tool_error`. Raises `UsageError` for a kind that is none.
    """

    def __init__(self, kind: FailureKind, message: str, *, faults: tuple[Fault, ...] = ()) -> None:
        super().__init__(message)
        if kind not in FAILURE_KINDS:
            known = ", ".join(FAILURE_KINDS)
            raise UsageError(f"{kind!r} is not a kind of failure; the kinds are: {known}")
        self.failure = Failure(kind, message, faults=faults)

    @classmethod
    def of(cls, failure: Failure) -> CallEnded:
        """The end of a call whose failure is known already."""
        ended = cls(failure.kind, failure.message)
        ended.failure = failure
        return ended


class ApprovalRequired(ControlFlow):
    """A person must decide before this call runs.

    Raised to callers that asked for exceptions, and by handlers that find out only while running
    that they need a yes (then the handler runs again once it is given, with
    `ctx.tool_call_approved` true). To fail for good, raise an ordinary exception instead. With
    `ignore_grants`, no grant can say yes; then `ctx.approved_when_asked` is true.
    """

    def __init__(
        self,
        metadata: Mapping[str, Any] | None = None,
        *,
        request: ApprovalRequest | None = None,
        ignore_grants: bool = False,
    ) -> None:
        super().__init__("this call waits for approval")
        self.metadata = metadata
        self.request = request
        self.ignore_grants = ignore_grants


class ResultDeferred(ControlFlow):
    """Raised by a handler or a runner that has handed its call over: the call stays open until
    somebody brings its result. `metadata` is for them.
    """

    def __init__(self, metadata: Mapping[str, Any] | None = None) -> None:
        super().__init__("the result of this call comes later, from outside")
        self.metadata = metadata


class ModelRetry(ControlFlow):
    """Tell the model what was wrong so that it calls again. Raise an ordinary exception for a
    failure that another try would not mend.
    """


def describe_error(error: BaseException) -> str:
    """An exception in one line: its type and its message."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}" if text else type(error).__name__
