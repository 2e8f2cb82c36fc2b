"""The least that answers JSON-RPC on stdin and stdout with asyncio: `python stdio_echo.py`."""

import asyncio
import json
import sys


async def _serve() -> None:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    transport, protocol = await loop.connect_write_pipe(
        asyncio.streams.FlowControlMixin, sys.stdout
    )
    writer = asyncio.StreamWriter(transport, protocol, None, loop)
    while line := await reader.readline():
        asked = json.loads(line)
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": asked.get("params")}
        writer.write(json.dumps(answer).encode() + b"\n")
        await writer.drain()


if __name__ == "__main__":
    asyncio.run(_serve())
