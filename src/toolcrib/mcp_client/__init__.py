"""Other MCP servers as a source of tools: connected to, listed, called, followed."""
