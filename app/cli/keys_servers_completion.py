"""`signoff keys`, `servers` and `completion`, and the JSON schemas."""

import argparse
import ast
import inspect
import json
from collections.abc import Iterator
from types import ModuleType
from typing import Any

from pydantic import TypeAdapter

from app.cli import json_documents
from app.cli.argument_parser import add_app_options, make_command_parser
from app.cli.command_output import ExitCode, print_error, print_json, print_line, print_text
from app.cli.json_documents import (
    ActionKeysJson,
    ConfiguredServerJson,
    LoggedDecisionJson,
    RecordVerificationDocument,
)
from app.keys.actions import ACTIONS
from app.keys.keymap import KeymapError, config_key_name, effective_keys, validate_and_convert_keymap
from app.mcp_client.configured_servers import find_configured_servers
from app.mcp_client.mcp_servers import SWITCH_KEY_PREFIX
from app.runtime.open_workspace import OpenWorkspace

_SCHEMA_DIALECT = "https://json-schema.org/draft/2020-12/schema"


def print_schema(arguments: argparse.Namespace) -> ExitCode:
    """Print the JSON schema of the decisions, of their verification, or of the events that hooks get."""
    if arguments.command == "doctor":
        # Imported only here: it delays the other commands.
        from app.automation import event_hooks

        schema = _document_schema(event_hooks.HookEventDocument, event_hooks)
    else:
        schema = _document_schema(RecordVerificationDocument if arguments.verify else list[LoggedDecisionJson])
    print_text(json.dumps(schema, indent=2) + "\n")
    return ExitCode.DONE


def _document_schema(document: Any, module: ModuleType = json_documents) -> dict[str, Any]:
    """Return the JSON schema of a document, or of a list of one, with the docstring of each field."""
    schema = TypeAdapter(document).json_schema(mode="serialization")
    documented = _field_docstrings(module)
    for part in [schema, *schema.get("$defs", {}).values()]:
        for name, field in part.get("properties", {}).items():
            if text := documented.get(part.get("title", ""), {}).get(name):
                field["description"] = text
    return {"$schema": _SCHEMA_DIALECT, **schema}


def _field_docstrings(module: ModuleType) -> dict[str, dict[str, str]]:
    """Return the string below each field, by class and field; pydantic would parse them at every start."""
    documented: dict[str, dict[str, str]] = {}
    for cls in ast.parse(inspect.getsource(module)).body:
        if not isinstance(cls, ast.ClassDef):
            continue
        fields = documented[cls.name] = {}
        for base in cls.bases:
            fields |= documented.get(ast.unparse(base), {})
        for field, text in zip(cls.body, cls.body[1:], strict=False):
            match field, text:
                case ast.AnnAssign(target=ast.Name(id=name)), ast.Expr(value=ast.Constant(value=str(words))):
                    fields[name] = inspect.cleandoc(words)
    return documented


def print_completion(arguments: argparse.Namespace) -> ExitCode:
    """Print the completion script of a shell."""
    import shtab

    parser = make_command_parser()
    add_app_options(parser)
    for action in _actions(parser):
        if action.metavar == "FOLDER":
            action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
        elif action.metavar in ("FILE", "PATH"):
            action.complete = shtab.FILE  # type: ignore[attr-defined]
    # The first word may also be a workspace.
    preamble = "_shtab_signoff_pos_0_COMPGEN=_shtab_compgen_dirs" if arguments.shell == "bash" else ""
    print_text(shtab.complete(parser, arguments.shell, preamble=preamble) + "\n")
    return ExitCode.DONE


def _actions(parser: argparse.ArgumentParser) -> Iterator[argparse.Action]:
    """Yield every argument of a parser and of its commands."""
    # argparse has no public way to walk a parser; shtab uses the same attribute.
    for action in parser._actions:
        yield action
        if isinstance(action.choices, dict):
            for command in action.choices.values():
                yield from _actions(command)


def print_keys(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Print all actions with their keys, in the order of the help screen."""
    keymap = runtime.settings.keys
    try:
        validate_and_convert_keymap(keymap)
    except KeymapError as error:
        print_error(f"{error} The standard keys are in force.")
        keymap = {}
    lines = [
        ActionKeysJson(
            id=action.id,
            title=action.title,
            keys=list(effective_keys(action, keymap)),
            scope=action.scope,
            help=action.help,
        )
        for action in ACTIONS
    ]
    if arguments.json:
        print_json(lines)
        return ExitCode.DONE
    for line in lines:
        print_line(f"{line.id:<26} {'  '.join(map(config_key_name, line.keys)):<22} {line.help or line.title}")
    return ExitCode.DONE


def print_mcp_servers(runtime: OpenWorkspace, arguments: argparse.Namespace) -> ExitCode:
    """Print the configured MCP servers in order of precedence."""
    settings = runtime.settings
    environment = runtime.environment if settings.mcp_of_others else {}
    theirs = runtime.configuration.servers_of_workspace
    known = find_configured_servers(
        settings.mcp, runtime.workspace, runtime.sessions, environment, workspace_tables=theirs
    )
    switched = runtime.sessions.settings(SWITCH_KEY_PREFIX)
    lines = [
        ConfiguredServerJson(
            name=server.name,
            on=switched.get(f"{SWITCH_KEY_PREFIX}{server.name}", "on" if server.table.enabled else "off") == "on",
            origin=server.origin,
            source=server.source,
        )
        for server in known.definitions
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
        print_line("No MCP server is configured.")
    return ExitCode.DONE
