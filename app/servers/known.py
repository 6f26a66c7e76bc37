"""Which servers there are for a workspace: signoff's own configuration first, then what is written for others."""

from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass

from app.config.server_table import ServerTable
from app.servers.definition import Definition
from app.servers.elsewhere import IN_WORKSPACE, Found, of_user, of_workspace
from app.text.safe_text import visible
from app.workspace import trust
from app.workspace.paths import Workspace, WorkspaceError

OWN = "signoff's configuration"
_HARMLESS = frozenset({"enabled", "timeout", "start_timeout"})
"""What a table of the user's changes of a server of a workspace's: nothing that it sends, nor how far it writes."""


@dataclass(frozen=True, slots=True)
class Known:
    """All servers by name, and what the user should know of the files."""

    definitions: tuple[Definition, ...]
    problems: tuple[str, ...] = ()
    untrusted: tuple[str, ...] = ()
    """Files of the workspace that name servers and wait for trust."""


def known_servers(
    own: Mapping[str, ServerTable],
    workspace: Workspace,
    store: trust.TrustStore,
    environment: Mapping[str, str],
    *,
    of_workspace: Collection[str] = (),
) -> Known:
    """Read all files; blocks.

    Args:
        own: The `[mcp.NAME]` tables.
        workspace: Whose files count where they are trusted.
        store: Keeps what is trusted.
        environment: Says where the user's home is; empty to leave out what is written there for other agents.
        of_workspace: Names of the tables that are the workspace's own.
    """
    whole = {name: table for name, table in own.items() if table.command or table.url}
    first = [_own(name, table, theirs=name in of_workspace) for name, table in whole.items()]
    found = [Found(tuple(first))]
    files = server_files(workspace, store)
    found += [each.found for each in files if each.trusted]
    untrusted = [each.name for each in files if not each.trusted]
    found.append(of_user(environment, workspace.root))
    definitions: dict[str, Definition] = {}
    problems = [visible(line, keep="") for one in found for line in one.problems]
    for each in (definition for one in found for definition in one.definitions):
        definitions.setdefault(each.name, each)
    for name in [each for each in own if each not in whole]:
        if name in of_workspace:
            problems.append(f"{trust.FILE_NAME}: [mcp.{name}] has neither a command nor a url.")
        elif name in definitions:
            definitions[name], problem = _adjusted(definitions[name], own[name])
            problems += [problem] if problem else []
        else:
            problems.append(f"[mcp.{name}] has neither a command nor a url, and no other file names that server.")
    return Known(tuple(definitions.values()), tuple(problems), tuple(untrusted))


def _own(name: str, table: ServerTable, *, theirs: bool) -> Definition:
    return Definition(name, table, trust.FILE_NAME if theirs else OWN, of_workspace=theirs)


def _adjusted(definition: Definition, table: ServerTable) -> tuple[Definition, str]:
    """A server with what a table of the user's says besides, and a line where not all of that counts."""
    kept = table.model_fields_set & _HARMLESS if definition.of_workspace else table.model_fields_set
    left = ", ".join(sorted(table.model_fields_set - kept))
    adjusted = definition.adjusted(ServerTable.model_validate(table.model_dump(include=set(kept))))
    if not left:
        return adjusted, ""
    name, source = definition.name, definition.source
    return adjusted, f"[mcp.{name}] can't change {left} of the server {name} of {source}: write it down whole there."


@dataclass(frozen=True, slots=True)
class ServerFile:
    """A file of the workspace, for another agent, that names servers."""

    name: str
    content: bytes
    trusted: bool
    found: Found


def server_files(workspace: Workspace, store: trust.TrustStore) -> list[ServerFile]:
    """Those that there are; blocks. One that can't be read is none that counts."""
    files = []
    for name in IN_WORKSPACE:
        with suppress(OSError, WorkspaceError):
            content = trust.configuration(workspace, name)
            found = of_workspace(name, content) if content else Found()
            if found.definitions or (content and trust.is_trusted(content, store, name)):
                files.append(ServerFile(name, content, trust.is_trusted(content, store, name), found))
    return files
