"""A replica in a process of its own, to be killed: prints its URL and serves until then."""

from __future__ import annotations

import asyncio
import sys

from tests.transports.http.served_runtime import served
from toolcrib.store import PostgresStore

LEASE_SECONDS = 2.0


async def main(url: str, key: str) -> None:
    with PostgresStore(url, key=key, lease_seconds=LEASE_SECONDS) as store:
        async with served(store=store) as replica:
            print(replica.server.url, flush=True)
            await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(*sys.argv[1:]))
