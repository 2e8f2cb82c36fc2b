"""Requests to authorization servers. An upstream server names their addresses, so they are bound:
https, no redirects, a small answer, and public hosts only unless the operator chose the host.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import urlsplit

from toolcrib.errors import CredentialFailed, EgressRefused, InvalidTool
from toolcrib.tools.mcp.credentials import check_url

if TYPE_CHECKING:
    import httpx2

    from toolcrib.egress import EgressPolicy

_SECONDS: Final = 15.0
_MAX_BYTES: Final = 262_144


class OAuthWeb:
    """An HTTP client for OAuth. `own` are addresses that the operator configured: their hosts are
    the operator's choice, at any port. `egress` bounds all other hosts.
    """

    def __init__(self, own: Iterable[str | None], egress: EgressPolicy) -> None:
        self._own = {urlsplit(url).hostname for url in own if url is not None}
        self._egress = egress

    async def send(self, request: httpx2.Request) -> httpx2.Response:
        """The whole answer. Raises `CredentialFailed`."""
        import httpx2

        url = str(request.url)
        where = f"{request.url.scheme}://{request.url.host}"
        try:
            check_url("the address", url)
        except InvalidTool:
            raise CredentialFailed(
                f"{where} is not https; tokens are asked for over https only"
            ) from None
        try:
            async with asyncio.timeout(_SECONDS), self._client(request.url) as client:
                response = await client.send(request, stream=True, follow_redirects=False)
                body = b""
                async for chunk in response.aiter_bytes():
                    body += chunk
                    if len(body) > _MAX_BYTES:
                        raise CredentialFailed(f"{where} answered with more than {_MAX_BYTES} B")
        except EgressRefused as error:
            raise CredentialFailed(
                f"the server names {where} for signing in, which is not allowed: {error}; set "
                "auth.issuer, or allow it with --allow-egress"
            ) from None
        except (httpx2.HTTPError, httpx2.InvalidURL, TimeoutError) as error:
            raise CredentialFailed(f"{where} does not answer ({type(error).__name__})") from None
        headers = {
            name: value
            for name, value in response.headers.items()
            if name not in ("content-encoding", "content-length", "transfer-encoding")
        }
        return httpx2.Response(response.status_code, headers=headers, content=body, request=request)

    def _client(self, url: httpx2.URL) -> httpx2.AsyncClient:
        import httpx2

        options: dict[str, Any] = {"timeout": _SECONDS, "follow_redirects": False}
        if url.host in self._own:
            return httpx2.AsyncClient(trust_env=url.scheme == "https", **options)
        from toolcrib.egress import egress_client

        return egress_client(self._egress, **options)
