"""Which operation about accounts is where, and who may ask for it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from toolcrib.errors import HttpRefused, Refused, UsageError
from toolcrib.runtime.messages import Nothing
from toolcrib.runtime.operations import Operation
from toolcrib.runtime.principal import ROLES, Role
from toolcrib.serving.auth import headers_of, principal_of, refuse_login
from toolcrib.serving.login import LoginFailed
from toolcrib.serving.refusals import as_bytes, as_refused, send_json, send_refusal
from toolcrib.transports.http.accounts import messages, people
from toolcrib.transports.http.accounts.accounts import ISSUER_PATH, Accounts
from toolcrib.transports.http.accounts.issuer_visit import CALLBACK_PATH
from toolcrib.transports.http.endpoint import read_params
from toolcrib.transports.http.routes import OperationRoute

if TYPE_CHECKING:
    from starlette.types import Receive, Scope, Send

    from toolcrib.serving.login import LoginFailures

_LARGEST_BODY: Final = 65_536


@dataclass(frozen=True, slots=True, kw_only=True)
class AccountRoute(OperationRoute):
    """An operation of the server itself at a method and a path."""

    run: Callable[..., Any]
    params: type[Any] = Nothing
    result: type[Any] = Nothing
    roles: tuple[Role, ...] = ("admin",)
    is_open: bool = False
    """Whether it is for everybody: also for those who have not signed in yet."""

    @property
    def operation(self) -> Operation:
        """The operation."""
        about = (self.run.__doc__ or "").strip()
        return Operation(self.name, self.roles, self.params, self.result, self.run, about)


ACCOUNT_ROUTES: Final = (
    AccountRoute(
        name="account.me",
        verb="GET",
        path="/v1/me",
        run=Accounts.me,
        result=messages.Me,
        roles=ROLES,
    ),
    AccountRoute(
        name="account.sign_in",
        verb="POST",
        path="/v1/sign-in",
        run=Accounts.sign_in,
        params=messages.SignIn,
        result=messages.Me,
        roles=(),
        is_open=True,
    ),
    AccountRoute(
        name="account.sign_in_options",
        verb="GET",
        path="/v1/sign-in/options",
        run=Accounts.options,
        result=messages.SignInOptions,
        roles=(),
        is_open=True,
    ),
    AccountRoute(
        name="account.sign_out",
        verb="POST",
        path="/v1/sign-out",
        run=Accounts.sign_out,
        roles=ROLES,
    ),
    AccountRoute(
        name="account.sign_in_link",
        verb="POST",
        path="/v1/sign-in-links",
        run=Accounts.make_link,
        result=messages.SignInLink,
        roles=ROLES,
        status=201,
    ),
    AccountRoute(
        name="people.list",
        verb="GET",
        path="/v1/people",
        run=people.list_people,
        params=messages.ListPeople,
        result=messages.People,
    ),
    AccountRoute(
        name="tokens.list",
        verb="GET",
        path="/v1/tokens",
        run=people.list_tokens,
        result=messages.TokenList,
    ),
    AccountRoute(
        name="tokens.create",
        verb="POST",
        path="/v1/tokens",
        run=people.create_token,
        params=messages.CreateToken,
        result=messages.NewTokenFacts,
        status=201,
    ),
    AccountRoute(
        name="tokens.rotate",
        verb="POST",
        path="/v1/tokens/{token_id}/rotate",
        run=people.rotate_token,
        params=messages.RotateToken,
        result=messages.NewTokenFacts,
    ),
    AccountRoute(
        name="tokens.revoke",
        verb="DELETE",
        path="/v1/tokens/{token_id}",
        run=people.revoke_token,
        params=messages.OneToken,
        result=messages.TokenFacts,
    ),
    AccountRoute(
        name="sign_ins.list",
        verb="GET",
        path="/v1/sign-ins",
        run=people.list_sign_ins,
        result=messages.SignInList,
    ),
    AccountRoute(
        name="sign_ins.revoke",
        verb="DELETE",
        path="/v1/sign-ins/{sign_in_id}",
        run=people.revoke_sign_in,
        params=messages.OneSignIn,
        result=messages.SignInFacts,
    ),
)

OPEN_ROUTES: Final = frozenset(
    {
        *((route.verb, route.path) for route in ACCOUNT_ROUTES if route.is_open),
        ("GET", ISSUER_PATH),
        ("GET", CALLBACK_PATH),
    }
)
"""The methods and paths for everybody."""


class AccountEndpoint:
    """Answers one operation about accounts. An ASGI application."""

    def __init__(self, accounts: Accounts, route: AccountRoute, failures: LoginFailures) -> None:
        self._accounts = accounts
        self._route = route
        self._operation = route.operation
        self._failures = failures

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        route, headers = self._route, headers_of(scope)
        try:
            if not route.is_open:
                principal_of(scope).check(route.roles, route.name)
            params = await read_params(route, scope, receive, headers, _LARGEST_BODY)
            answer = await route.run(self._accounts, self._operation.read(params), scope)
        except LoginFailed as failure:
            resource = self._accounts.access.resource
            await refuse_login(scope, send, failure, self._failures, resource)
        except UsageError as error:
            await send_refusal(send, Refused("invalid", str(error)))
        except OSError as error:
            text = f"{route.name}: the server's own files cannot be changed: {error.strerror}"
            await send_refusal(send, HttpRefused(500, "internal", text))
        except Exception as error:
            await send_refusal(send, as_refused(error, route.name))
        else:
            await send_json(send, route.status, as_bytes(answer.body), answer.headers)
