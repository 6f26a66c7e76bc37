"""`signoff servers`: lists the configured MCP servers and whether they are trusted."""

import argparse

from app.cli.command_output import ExitCode, print_error, print_json, print_line
from app.cli.json_documents import ServerLine
from app.mcp_client.configured_servers import find_servers
from app.mcp_client.mcp_servers import SWITCHED
from app.runtime.open_workspace import OpenWorkspace


def list_servers(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """List the configured MCP servers in order of precedence."""
    settings = runtime.settings
    environment = runtime.environment if settings.mcp_of_others else {}
    theirs = runtime.configuration.servers_of_workspace
    known = find_servers(settings.mcp, runtime.workspace, runtime.sessions, environment, of_workspace=theirs)
    switched = runtime.sessions.settings(SWITCHED)
    lines = [
        ServerLine(
            name=each.name,
            on=switched.get(f"{SWITCHED}{each.name}", "on" if each.table.enabled else "off") == "on",
            origin=each.origin,
            source=each.source,
        )
        for each in known.definitions
    ]
    for problem in known.problems:
        print_error(problem)
    for name in known.untrusted:
        print_error(f"{name} names MCP servers, which wait for your trust: /trust in signoff shows it.")
    if arguments.json:
        print_json(lines)
        return ExitCode.DONE
    for line in lines:
        print_line(f"{line.name:<20} {'on' if line.on else 'off':<4} {line.origin}  ({line.source})")
    if not lines:
        print_line("No file names an MCP server.")
    return ExitCode.DONE
