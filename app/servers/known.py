"""Which servers there are for a workspace: signoff's own configuration first, then what is written for others."""

from collections.abc import Mapping
from dataclasses import dataclass

from app.safe_text import visible
from app.server_table import ServerTable
from app.servers.definition import Definition
from app.servers.elsewhere import IN_WORKSPACE, Found, of_user, of_workspace
from app.workspace import trust
from app.workspace.paths import Workspace, WorkspaceError

OWN = "signoff's configuration"


@dataclass(frozen=True, slots=True)
class Known:
    """All servers by name, and what the user should know of the files."""

    definitions: tuple[Definition, ...]
    problems: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Files of the workspace that name servers and wait for trust."""


def known_servers(
    own: Mapping[str, ServerTable], workspace: Workspace, store: trust.TrustStore, environment: Mapping[str, str]
) -> Known:
    """Read all files; blocks.

    Args:
        own: The `[mcp.NAME]` tables.
        workspace: Whose files count where they are trusted.
        store: Keeps what is trusted.
        environment: Says where the user's home is; empty to leave out what is written there for other agents.
    """
    found = [Found(tuple(Definition(name, table, OWN) for name, table in own.items() if table.command or table.url))]
    untrusted = []
    for name in IN_WORKSPACE:
        content, problem = _content(workspace, name)
        if problem:
            found.append(Found(problems=(problem,)))
        elif content:
            inside = of_workspace(name, content)
            if trust.is_trusted(content, store, name):
                found.append(inside)
            elif inside.definitions:
                untrusted.append(name)
    found.append(of_user(environment, workspace.root))
    definitions: dict[str, Definition] = {}
    problems = [visible(line, keep="") for one in found for line in one.problems]
    for each in (definition for one in found for definition in one.definitions):
        definitions.setdefault(each.name, each)
    for name, table in own.items():
        if table.command or table.url:
            continue
        if name in definitions:
            definitions[name] = definitions[name].adjusted(table)
        else:
            problems.append(f"[mcp.{name}] has neither a command nor a url, and no other file names that server.")
    return Known(tuple(definitions.values()), tuple(problems), tuple(untrusted))


def _content(workspace: Workspace, name: str) -> tuple[bytes, str]:
    """The bytes of a file of the workspace, and why it can't be read."""
    try:
        return trust.configuration(workspace, name), ""
    except (OSError, WorkspaceError) as error:
        return b"", f"{name} is left alone: {error}"
