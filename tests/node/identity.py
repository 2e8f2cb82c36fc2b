"""A real identity server (npm `oidc-provider`) for tests, and tokens signed with its keys."""

from __future__ import annotations

import asyncio
import json
import subprocess
import time
from collections.abc import AsyncGenerator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urljoin

import httpx2
import jwt
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from tests.helpers.patience import PATIENCE
from tests.node.peers import MODULES, command, environment

_PROGRAM = Path(__file__).with_name("identity_server.mjs")
_LIBRARY = MODULES / "oidc-provider" / "lib" / "index.js"
CLIENT_SECRET = "a-secret-of-the-tests-0123456789"


@dataclass(frozen=True)
class Key:
    """A private key, with the id under which the issuer publishes it."""

    kid: str
    private: rsa.RSAPrivateKey = field(
        default_factory=lambda: rsa.generate_private_key(public_exponent=65537, key_size=2048)
    )

    @property
    def jwk(self) -> dict[str, Any]:
        """The private key as a JWK."""
        fields = RSAAlgorithm.to_jwk(self.private, as_dict=True)
        return {**fields, "kid": self.kid, "use": "sig", "alg": "RS256"}

    @property
    def public_jwk(self) -> dict[str, Any]:
        """The public key as a JWK."""
        fields = RSAAlgorithm.to_jwk(self.private.public_key(), as_dict=True)
        return {**fields, "kid": self.kid, "use": "sig", "alg": "RS256"}

    def sign(self, claims: Mapping[str, Any], **header: Any) -> str:
        """A token with these claims."""
        headers = {"kid": self.kid, "typ": "at+jwt", **header}
        return jwt.encode(dict(claims), self.private, algorithm="RS256", headers=headers)


def claims_of(issuer: str, audience: str, **more: Any) -> dict[str, Any]:
    """The claims of a token that is valid now; None takes one away."""
    now = int(time.time())
    claims = {
        "iss": issuer,
        "aud": audience,
        "sub": "ada",
        "iat": now,
        "exp": now + 300,
        "groups": ["engineers"],
        **more,
    }
    return {name: value for name, value in claims.items() if value is not None}


class IdentityServer:
    """The running server."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self._process = process
        self.issuer = ""

    async def set_up(self, keys: Sequence[Key], resources: Sequence[str], **more: Any) -> None:
        """Serve with these keys, the first of which signs, and for these resources."""
        jwks = {"keys": [key.jwk for key in keys]}
        await self._tell({"jwks": jwks, "resources": list(resources), **more})

    async def set_away(self, is_away: bool) -> None:
        """Answer nothing but 503, or as before."""
        await self._tell({"is_away": is_away})

    async def token(self, client_id: str, resource: str, scope: str = "mcp") -> str:
        """An access token by client credentials, for one resource."""
        form = {"grant_type": "client_credentials", "resource": resource, "scope": scope}
        async with httpx2.AsyncClient(timeout=PATIENCE) as client:
            answer = await client.post(
                f"{self.issuer}/token", data=form, auth=(client_id, CLIENT_SECRET)
            )
        assert answer.status_code == 200, answer.text
        return answer.json()["access_token"]

    async def _tell(self, line: Mapping[str, Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps(line).encode() + b"\n")
        answer = b"\n"
        async with asyncio.timeout(PATIENCE):
            # The library prints notices, too.
            while answer and not answer.startswith(b"{"):
                answer = await self._process.stdout.readline()
        self.issuer = json.loads(answer)["issuer"]


@asynccontextmanager
async def identity_server() -> AsyncGenerator[IdentityServer]:
    """Start the server; `set_up` makes it serve."""
    process = await asyncio.create_subprocess_exec(
        command("node"),
        str(_PROGRAM),
        str(_LIBRARY),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    )
    try:
        yield IdentityServer(process)
    finally:
        process.kill()
        await process.wait()


async def sign_in(address: str, *, callback: str | None = None) -> str:
    """Do in place of a person what a browser does: follow redirects with cookies, to the end or to
    the address of a client that no server listens on. Returns the last address.
    """
    async with httpx2.AsyncClient(timeout=PATIENCE) as browser:
        for _ in range(20):
            if callback is not None and address.startswith(callback):
                return address
            answer = await browser.get(address)
            if answer.status_code not in (301, 302, 303, 307):
                assert answer.status_code == 200, answer.text
                return address
            address = urljoin(address, answer.headers["location"])
    raise AssertionError(f"too many redirects, the last to {address}")
