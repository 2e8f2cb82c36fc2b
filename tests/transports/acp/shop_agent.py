"""The shop as an agent in a process of its own.

With --model there is a model in it, --script NAME chooses its answers; --store FILE keeps sessions,
--pids FILE the process's number.
"""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

from tests.transports.shop import shop
from toolcrib.testing import ScriptedOpenAI, calls, says
from toolcrib.transports.acp.server import serve_acp
from toolcrib.transports.pipes import claim_pipes

GREET = [calls("greet", {"name": "Ada"}, call_id="call_model_1")]
ASK = [calls("guarded", {"name": "Bob"}, call_id="call_model_2")]
REFUSAL = {
    "type": "message",
    "id": "msg_1",
    "role": "assistant",
    "content": [{"type": "refusal", "refusal": "not in this shop"}],
}
REASONING = {
    "type": "reasoning",
    "id": "rs_1",
    "summary": [{"type": "summary_text", "text": "Ada likes to be greeted."}],
}

SCRIPTS: dict[str, list[list[Any]]] = {
    "guarded": [ASK, [says("Bob was greeted.")], ASK, [says("Bob again.")]],
    "endless": [[calls("endless", {}, call_id="call_model_1")], [says("Never mind.")]],
    "refusal": [[REFUSAL]],
    "rounds": [GREET] * 60,
    "broken": [],
    "thinking": [[REASONING, says("I greet."), *GREET], [says("Ada was greeted.")]],
}


def scripted(name: str) -> Any:
    from toolcrib.adapters.openai import OpenAIAdapter

    return OpenAIAdapter(model="scripted", client=ScriptedOpenAI(*SCRIPTS[name]).client())


def main() -> None:
    pipes = claim_pipes()
    print("a module that prints as it is loaded")
    flags = sys.argv[1:]
    changes: dict[str, Any] = {}
    if "--script" in flags:
        changes["adapter"] = scripted(flags[flags.index("--script") + 1])
    if "--store" in flags:
        from toolcrib.store.sqlite import SqliteStore

        changes["store"] = SqliteStore(Path(flags[flags.index("--store") + 1]))
    if "--pids" in flags:
        with Path(flags[flags.index("--pids") + 1]).open("a") as file:
            file.write(f"{os.getpid()}\n")
    if "--small" in flags:
        changes |= {"max_payload_bytes": 20_000, "event_backlog": 10}
    asyncio.run(serve_acp(shop(has_model="--model" in flags, **changes), pipes))


if __name__ == "__main__":
    main()
