"""OpenAI's Responses API, on the official SDK, which is imported when a request is made."""
