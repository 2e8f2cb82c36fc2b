"""OAuth 2.1 to mounted MCP servers: discovery, sign-in, tokens, and where they are kept."""
