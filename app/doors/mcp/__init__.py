"""`signoff mcp`: an MCP server on standard input and output, for agents that propose edits here."""
