"""Definition of a server: a program or an address, and the file that names it."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum

from app.config.config_tables import ServerTable
from app.sandbox.environment import OWN_KEYS
from app.sandbox.own_process import landlock_version
from app.sandbox.sandbox import Sandbox
from app.sandbox.sandbox_mode import SandboxMode

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


class InvalidServer(Exception):
    """A definition that cannot be used; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class ServerDefinition:
    """An MCP server as a file defines it."""

    name: str
    table: ServerTable
    source: str
    """The file, as the user knows it."""
    of_workspace: bool = False
    """The workspace brings it along: it counts since the user trusts the file, and is not the user's own word."""

    @property
    def is_remote(self) -> bool:
        """Return whether it is reached by an address."""
        return bool(self.table.url)

    @property
    def origin(self) -> str:
        """Return its program or its address, in a line."""
        return self.table.url or " ".join((self.table.command, *self.table.args))

    @property
    def fingerprint(self) -> str:
        """Return a digest that tells it from another server of the same name; permissions are bound to it."""
        table = self.table
        same = [table.command, table.args, sorted(table.env.items()), table.cwd, table.url]
        return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:32]

    def with_overrides(self, table: ServerTable) -> "ServerDefinition":
        """Return it with what the user's own table says besides."""
        return replace(self, table=self.table.model_copy(update=table.model_dump(exclude_unset=True)))

    def expand_variables(self, environment: Mapping[str, str]) -> ServerTable:
        """Return its table with `${NAME}` and `${NAME:-default}` replaced.

        Raises:
            InvalidServer: A name is not set, or stands for a key of signoff's, which no workspace sends anywhere.
        """

        def expand(text: str) -> str:
            return _VARIABLE.sub(value, text)

        def value(found: re.Match[str]) -> str:
            name, default = found.groups()
            if self.of_workspace and name in OWN_KEYS:
                raise InvalidServer(f"{self.source} can't have ${{{name}}}: that key is for the endpoint alone.")
            if name in environment:
                return environment[name]
            if default is None:
                raise InvalidServer(f"${{{name}}} is not set in the environment.")
            return str(default)

        table = self.table
        return table.model_copy(
            update={
                "command": expand(table.command),
                "args": tuple(map(expand, table.args)),
                "env": {name: expand(text) for name, text in table.env.items()},
                "cwd": expand(table.cwd),
                "url": expand(table.url),
                "headers": {name: expand(text) for name, text in table.headers.items()},
            }
        )


class WriteAccess(StrEnum):
    """The places where a server can write."""

    LAYER = "layer"
    """To a layer over the workspace, as those of commands: what it writes becomes part of a proposal."""
    READ_ONLY = "read-only"
    """Nowhere in the workspace: where there can be no layer, the kernel keeps it from writing there."""
    DIRECT = "direct"
    """To the files, without review."""
    REMOTE = "remote"
    """It runs elsewhere and has no files of ours."""


REACH_WORDS = {
    WriteAccess.LAYER: "What it changes in your files will wait as a proposal.",
    WriteAccess.READ_ONLY: "This server can read your files, and can't write to them.",
    WriteAccess.DIRECT: "This server can write to your files directly, without review.",
    WriteAccess.REMOTE: "This server runs elsewhere: the arguments leave this machine.",
}
"""What the user has to know of it."""


async def write_access_of(definition: ServerDefinition, sandbox: Sandbox) -> WriteAccess:
    """Return where a server can write here."""
    if definition.is_remote:
        return WriteAccess.REMOTE
    if not definition.table.layer:
        return WriteAccess.DIRECT
    if (await sandbox.probe()).mode is SandboxMode.OVERLAY:
        return WriteAccess.LAYER
    return WriteAccess.READ_ONLY if landlock_version() else WriteAccess.DIRECT
