"""The Messages API: requests, content blocks, server tools and the message loop."""
