"""Somebody else's MCP server, which knows nothing of policies, approvals or records."""

from __future__ import annotations

from mcp.server.mcpserver import MCPServer

server = MCPServer("notes")
notes = ["Buy nuts and bolts.", "The saw is at the shop."]


@server.tool(structured_output=False)
def search(word: str) -> str:
    """Find notes that contain a word."""
    matches = [note for note in notes if word.lower() in note.lower()]
    return "\n".join(matches) or "There is no such note."


@server.tool(structured_output=False)
def add(text: str) -> str:
    """Write down a note."""
    notes.append(text)
    return f"There are {len(notes)} notes now."


@server.tool(structured_output=False)
def delete_all() -> str:
    """Throw all notes away."""
    notes.clear()
    return "All notes are gone."


if __name__ == "__main__":
    server.run("stdio")
