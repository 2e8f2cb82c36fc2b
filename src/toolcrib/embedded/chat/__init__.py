"""The Chat Completions API on the engine of the Responses API."""
