"""A client for MCP servers: starts or connects to them, lists their tools, and calls them for the model."""
