"""A server made with the `mcp` package, as authors do it: `python sdk_server.py [PORT [json]]`."""

import sys

from mcp.server import MCPServer
from pydantic import BaseModel

server = MCPServer("sdk")


class Sum(BaseModel):
    value: int
    words: list[str]


@server.tool()
def add(first: int, second: int) -> Sum:
    """Add two numbers."""
    return Sum(value=first + second, words=["sum"])


@server.tool()
def fail() -> str:
    """Fail."""
    raise ValueError("it went wrong")


if len(sys.argv) > 1:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[1]), json_response="json" in sys.argv)
else:
    server.run()
