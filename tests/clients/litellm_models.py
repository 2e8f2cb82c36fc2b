"""LiteLLM: plain completions, streams, tools, and its bridge to Responses."""
# pyright: basic, reportMissingImports=false

from __future__ import annotations

import os

# Without it, the import fetches a list of prices.
os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"

import litellm

ACCESS = {"api_base": os.environ["PROVIDER_URL"], "api_key": os.environ["TOKEN"]}
ASK = [{"role": "user", "content": "Say hello"}]
ADD = {
    "type": "function",
    "function": {
        "name": "add",
        "parameters": {
            "type": "object",
            "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
        },
    },
}


def check(model: str) -> None:
    """An answer, a stream and a tool call."""
    answer = litellm.completion(model=model, messages=ASK, **ACCESS)
    assert answer.choices[0].message.content == "Hello from the provider."
    pieces = litellm.completion(model=model, messages=ASK, stream=True, **ACCESS)
    text = "".join(piece.choices[0].delta.content or "" for piece in pieces)
    assert text == "Hello from the provider."
    asked = [{"role": "user", "content": "Add"}]
    called = litellm.completion(model=model, messages=asked, tools=[ADD], **ACCESS)
    assert called.choices[0].message.tool_calls[0].function.name == "add"
    print(f"{model}: an answer, a stream, a tool")


if __name__ == "__main__":
    litellm.suppress_debug_info = True
    check("openai/gpt-5")
    check("openai/responses/gpt-5")
    answer = litellm.responses(model="openai/gpt-5", input="Say hello", **ACCESS)
    assert "Hello from the provider." in str(answer.output)
    print("responses(): an answer")
