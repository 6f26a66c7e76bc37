"""What a server is: a program to start, or an address; and where that is written."""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from app.config.server_table import ServerTable
from app.sandbox.environment import OWN_KEYS

_VARIABLE = re.compile(r"\$\{([A-Za-z_]\w*)(?::-([^}]*))?\}")


class BadServer(Exception):
    """A definition that cannot be used; the message is one line that says why."""


@dataclass(frozen=True, slots=True)
class Definition:
    """A server as some file names it."""

    name: str
    table: ServerTable
    source: str
    """The file, as the user knows it."""
    of_workspace: bool = False
    """The workspace brings it along: it counts since the user trusts the file, and is not the user's own word."""

    @property
    def is_remote(self) -> bool:
        """Whether it runs elsewhere."""
        return bool(self.table.url)

    @property
    def origin(self) -> str:
        """Its program or its address, in a line."""
        return self.table.url or " ".join((self.table.command, *self.table.args))

    @property
    def fingerprint(self) -> str:
        """Tells it from another server of the same name; what is allowed for one is not for the other."""
        table = self.table
        same = [table.command, table.args, sorted(table.env.items()), table.cwd, table.url]
        return hashlib.sha256(json.dumps(same).encode()).hexdigest()[:32]

    def adjusted(self, table: ServerTable) -> "Definition":
        """The same with what a table of the user's says besides."""
        return replace(self, table=self.table.model_copy(update=table.model_dump(exclude_unset=True)))

    def expanded(self, environment: Mapping[str, str]) -> ServerTable:
        """Its table with `${NAME}` and `${NAME:-default}` replaced.

        Raises:
            BadServer: A name is not set, or stands for a key of signoff's, which no workspace sends anywhere.
        """

        def expand(text: str) -> str:
            return _VARIABLE.sub(value, text)

        def value(found: re.Match[str]) -> str:
            name, default = found.groups()
            if self.of_workspace and name in OWN_KEYS:
                raise BadServer(f"{self.source} can't have ${{{name}}}: that key is for the endpoint alone.")
            if name in environment:
                return environment[name]
            if default is None:
                raise BadServer(f"${{{name}}} is not set in the environment.")
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
