"""MCP servers for the tests of the client: scripted servers, hostile ones among them, and real ones."""
