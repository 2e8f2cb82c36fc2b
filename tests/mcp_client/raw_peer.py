"""A server that says whatever a test wants it to: `raw_peer.py TOOLS`, a JSON list of tools.

It speaks the protocol with a handshake, line by line and without any library. What a call does is
in the name of the tool.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

Json = dict[str, Any]


def say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()


def answer(asked: Json, result: Json) -> None:
    say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "result": result}))


def text(asked: Json, said: str) -> None:
    answer(asked, {"content": [{"type": "text", "text": said}]})


def refuse(asked: Json, code: int, message: str) -> None:
    error = {"code": code, "message": message}
    say(json.dumps({"jsonrpc": "2.0", "id": asked["id"], "error": error}))


def list_tools(asked: Json, tools: list[Json]) -> None:
    """One tool on each page."""
    at = int(asked["params"].get("cursor", 0)) if "params" in asked else 0
    page: Json = {"tools": tools[at : at + 1]}
    if at + 1 < len(tools):
        page["nextCursor"] = str(at + 1)
    answer(asked, page)


def log(asked: Json) -> None:
    print("a line that is no message")
    say(json.dumps({"level": 30, "msg": "a log line in JSON"}))
    text(asked, "logged")


def endless(asked: Json) -> None:
    while True:
        sys.stdout.write("{" + "x" * 1_000_000)


def deep(asked: Json) -> None:
    nested = "[" * 5_000 + "]" * 5_000
    say(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": {nested}}}')


def complain(asked: Json) -> None:
    print(f"the token is {os.environ['TOKEN']}", file=sys.stderr, flush=True)
    os._exit(7)


def ask(asked: Json) -> None:
    params: Json = {"message": "?", "requestedSchema": {"type": "object", "properties": {}}}
    question: Json = {"id": "q", "method": "elicitation/create", "params": params}
    say(json.dumps({"jsonrpc": "2.0", **question}))
    reply = json.loads(sys.stdin.readline())
    said = reply["error"]["message"] if "error" in reply else reply["result"]["action"]
    text(asked, f"told: {said}")


def start_a_child(asked: Json) -> None:
    """Something that outlives the server, if nobody ends it, and holds its pipes open."""
    started = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    text(asked, str(started.pid))


def structured(asked: Json) -> None:
    """Answer with the arguments as structured content."""
    content = [{"type": "text", "text": "{}"}]
    answer(asked, {"content": content, "structuredContent": asked["params"]["arguments"]})


CALLS: dict[str, Callable[[Json], None]] = {
    "ask": ask,
    "broken": lambda asked: say(f'{{"jsonrpc": "2.0", "id": {asked["id"]}, "result": '),
    "complain": complain,
    "deep": deep,
    "endless": endless,
    "log": log,
    "no_result": lambda asked: answer(asked, {"content": "not a list"}),
    "refuse": lambda asked: refuse(asked, -32602, "no, because of \x1b[31mred"),
    "silent": lambda asked: None,
    "start_a_child": start_a_child,
    "structured": structured,
}


def call(asked: Json, tools: list[Json]) -> None:
    name = asked["params"]["name"]
    if name == "describe":
        describe(asked, tools)
    else:
        CALLS.get(name, lambda asked: text(asked, f"ran {name}"))(asked)


def describe(asked: Json, tools: list[Json]) -> None:
    """Give a tool, which may be new, another description, and say that the tools changed."""
    given = asked["params"]["arguments"]
    found = [each for each in tools if each["name"] == given["tool"]]
    if not found:
        found = [{"name": given["tool"], "inputSchema": {"type": "object"}}]
        tools += found
    found[0]["description"] = given["description"]
    if not given["description"]:
        tools.remove(found[0])
    say(json.dumps({"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}))
    text(asked, "described")


def main(tools: list[Json]) -> None:
    for line in sys.stdin:
        asked = json.loads(line)
        match asked["method"]:
            case "initialize":
                known: Json = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}}
                answer(asked, {**known, "serverInfo": {"name": "raw", "version": "1"}})
            case "tools/list":
                list_tools(asked, tools)
            case "tools/call":
                call(asked, tools)
            case _ if "id" in asked:
                refuse(asked, -32601, "Method not found")
            case _:
                continue


if __name__ == "__main__":
    main(json.loads(sys.argv[1]))
