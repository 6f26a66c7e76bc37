"""MCP servers that signoff is the client of: played by scripts here, hostile ones among them, and real ones."""
