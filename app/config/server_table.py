"""The `[mcp.NAME]` tables of the configuration: MCP servers whose tools the model may call.

Kept apart: the configuration parses it, and what starts servers takes it.
"""

from pydantic import BaseModel, ConfigDict, Field, model_validator


class ServerTable(BaseModel):
    """One server: a program of the user's, or an address; with neither it changes one that another file names."""

    model_config = ConfigDict(frozen=True, extra="forbid", defer_build=True)

    command: str = ""
    """The program, by path or by name."""
    args: tuple[str, ...] = ()
    """The arguments of the program."""
    env: dict[str, str] = Field(default_factory=dict)
    """Variables besides the usual, which hold no secret; `${NAME}` stands for one of signoff's own."""
    cwd: str = ""
    """The folder in which the program runs; the workspace if empty."""
    url: str = ""
    """The address of a server that speaks Streamable HTTP."""
    headers: dict[str, str] = Field(default_factory=dict)
    """More headers of each request; `${NAME}` as in `env`."""
    client_id: str = ""
    """The OAuth client id of signoff at this server; signoff registers itself if empty."""
    enabled: bool = True
    """Whether the server is started or connected to."""
    timeout: float = Field(default=60, gt=0, le=3600)
    """Seconds that one call may take."""
    start_timeout: float = Field(default=60, gt=0, le=3600)
    """Seconds until the server has listed its tools."""
    writable: tuple[str, ...] = ()
    """What it may write outside the workspace, besides what commands may."""
    layer: bool = True
    """Whether it runs on a layer over the workspace; without, it can write to the files directly."""

    @model_validator(mode="after")
    def _one_way(self) -> "ServerTable":
        if self.command and self.url:
            raise ValueError("it has either a command or a url, not both")
        return self
