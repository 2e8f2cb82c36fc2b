"""Who may see and use what: a session belongs to the principal that made it, with its calls,
approvals, events and artifacts.

Somebody else's session is refused in the words for one that does not exist. Callers choose neither
the directory nor the environment of their sessions unless the host lets them.
"""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Final

from toolcrib.errors import Refused, UsageError
from toolcrib.runtime.principal import LOCAL_NAME, OWNER, OWNER_NAME, Principal

if TYPE_CHECKING:
    from toolcrib.store.store import SessionInfo

_PLAIN_NAME: Final = re.compile(r"[A-Za-z0-9_.-]{1,64}")
_HASHED_NAME: Final = re.compile(r"p-[0-9a-f]{24}")
_LOADER_VARIABLES: Final = re.compile(
    r"(LD|DYLD|MALLOC|GLIBC|BASH_FUNC|GIT_CONFIG|GIT_SSH)_.*|.*(PATH|LIB|OPT|OPTIONS|PRELOAD|HOME)"
    r"|PYTHON(STARTUP|BREAKPOINT|INSPECT|USERBASE|EXECUTABLE|PLATLIBDIR)|(BASH_)?ENV|IFS|SHELL"
    r"|SHELLOPTS|BASHOPTS|PS4|PROMPT_COMMAND|GIT_EXTERNAL_DIFF|.*_(PROXY|PAGER|EDITOR|ASKPASS)"
    r"|EDITOR|VISUAL|PAGER|LESSOPEN|LESSCLOSE|NODE_REPL_EXTERNAL_MODULE|OPENSSL_.*|SSL_CERT_.*",
    re.IGNORECASE,
)
"""Variables by which other code is loaded into a program, or other programs are found."""


def may_see(who: Principal, owner: str | None) -> bool:
    """Whether a principal may know that a session of this owner exists."""
    return owner == who.name or who.sees_all


def check_change(who: Principal, owner: str | None) -> None:
    """Raise `Refused` (forbidden) unless a principal may use a session that it sees."""
    if owner != who.name and "admin" not in who.roles:
        raise Refused(
            "forbidden",
            f"the session belongs to another principal; {who.name!r} may read it and no more",
        )


def no_session(session_id: str) -> Refused:
    """The one answer about a session that is not there, and about one of somebody else."""
    return Refused(
        "not_found", f"there is no session {session_id[:128]!r}; list the sessions, or create one"
    )


def not_open(session_id: str) -> Refused:
    """The answer to the owner of a session that is in the store and not open in this process."""
    return Refused("not_found", f"session {session_id[:128]!r} is not open here; resume it")


def owner_of(info: SessionInfo) -> Principal:
    """Who opens a session for its turns when nobody asks: its owner, by no transport."""
    if info.owner is None or info.owner == OWNER_NAME:
        return OWNER
    transport = "mcp" if info.owner == LOCAL_NAME else None
    return Principal(info.owner, frozenset({"caller"}), transport=transport)


def namespace_of(name: str) -> str:
    """What the session ids that a principal chooses begin with, before the colon."""
    # A plain name of the form of a hashed one could be made to meet the namespace of another.
    if _PLAIN_NAME.fullmatch(name) and not _HASHED_NAME.fullmatch(name):
        return name
    return f"p-{sha256(name.encode(errors='surrogatepass')).hexdigest()[:24]}"


def may_choose(session_id: str, who: Principal) -> bool:
    """Whether a principal may give a session this id. Ids of its own namespace are taken by nobody
    else, so that a conflict says nothing about the sessions of others.
    """
    if "admin" in who.roles:
        return True
    namespace, _, rest = session_id.rpartition(":")
    return namespace == namespace_of(who.name) and bool(rest)


def check_new_id(session_id: str | None, who: Principal) -> None:
    """Raise `Refused` (invalid) for an id that `who` may not choose."""
    if session_id is not None and not may_choose(session_id, who):
        raise Refused(
            "invalid",
            f"a session id that you choose begins with {namespace_of(who.name) + ':'!r} and has no "
            "other colon; or leave session_id out",
        )


@dataclass(frozen=True, slots=True)
class CallerChoices:
    """What principals that are no admins may choose for the sessions that they make."""

    roots: Collection[str] = ()
    """They choose a `cwd` within these directories. Without one, they get the runtime's."""
    variables: Collection[str] = ()
    """They set these variables of the `environment` and no other. A variable that makes programs
    load other code (`LD_PRELOAD`, `PATH` and the like) may be set only when it is named here, also
    by an admin.
    """

    def __post_init__(self) -> None:
        for root in self.roots:
            if not os.path.isabs(root):
                raise UsageError(f"callers_choose: the root {root!r} must be an absolute path")

    def cwd(self, cwd: str | None, own_cwd: str, who: Principal) -> str:
        """The directory of a new session. Raises `Refused` (forbidden)."""
        if cwd is None or cwd == own_cwd or _is_trusted(who):
            return cwd or own_cwd
        # Links are followed first: what counts is where the directory really is.
        real = os.path.realpath(os.path.join(own_cwd, cwd))
        if any(_is_within(real, os.path.realpath(root)) for root in self.roots):
            return real
        allowed = f"choose one within {', '.join(sorted(self.roots))}, or " if self.roots else ""
        raise Refused(
            "forbidden",
            f"{who.name!r} may not choose this cwd; {allowed}leave it out. The host allows "
            "directories with callers_choose (--allow-cwd)",
        )

    def check_environment(self, environment: Mapping[str, str], who: Principal) -> None:
        """Raise `Refused` (forbidden) for variables that `who` may not set."""
        if not environment or (who.transport is None and "admin" in who.roles):
            return
        refused = [
            name
            for name in environment
            if name not in self.variables
            and (not _is_trusted(who) or _LOADER_VARIABLES.fullmatch(name))
        ]
        if refused:
            raise Refused(
                "forbidden",
                f"{who.name!r} may not set the variable {refused[0][:128]!r} of a session; leave "
                "it out. The host allows variables with callers_choose (--allow-env)",
            )


def _is_trusted(who: Principal) -> bool:
    return "admin" in who.roles


def _is_within(path: str, root: str) -> bool:
    return path == root or path.startswith(root.rstrip("/") + "/")
