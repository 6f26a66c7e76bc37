"""MCP servers of the user's, and their tools for the model; the server that signoff itself is, is in `doors/mcp`."""
