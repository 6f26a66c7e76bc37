"""A client for MCP servers: starts or reaches them, lists their tools, and calls them for the model."""
