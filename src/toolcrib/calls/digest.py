"""The digest of a frozen call: its identity for every decision about it.

Policy, grants, approvals and resuming know a call by this digest and by nothing else.
"""

from __future__ import annotations

from hashlib import sha256
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from toolcrib.calls.call import Call


def digest(call: Call) -> str:
    """What the frozen call is, in one number: tool, version and arguments.

    Computed when first needed; the arguments cannot change in between because they are bytes.
    """
    if call.digest_cache is None:
        tool = call.prepared
        prefix = tool.digest_prefix if tool else f"{call.name}\n".encode(errors="surrogatepass")
        call.digest_cache = sha256(prefix + call.arguments).hexdigest()
    return call.digest_cache
