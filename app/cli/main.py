"""Entry point of the command line: parses, opens the workspace and runs the command."""

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from app.cli.app_arguments import COMMANDS, AppArguments, settings_of_flags

if TYPE_CHECKING:
    import argparse

_READER_GONE = 128 + signal.SIGPIPE
_GARBAGE = 200_000
"""Objects made before garbage is looked for."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run signoff and return its exit code: 0 done, 1 failed, 2 wrong usage, 3 refused."""
    try:
        code = _run(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        code = _READER_GONE
    except SystemExit as answered:  # by argparse: help, or what is wrong with the words
        code = int(answered.code or 0)
    return _without_readers(code)


def _run(words: Sequence[str]) -> int:
    from app.cli.terminal_streams import open_closed_streams, show_control_characters

    if words[:1] != ["mcp"]:
        # That one says itself that it needs them.
        open_closed_streams()
    show_control_characters()
    if words and words[0] in COMMANDS:
        return _run_command(_parsed(words))
    if words and not words[0].startswith("-") and (problem := _not_a_folder(words[0])):
        return _wrong_usage(problem)
    return _open_app(_app_arguments(words) if words else AppArguments())


def _app_arguments(words: Sequence[str]) -> AppArguments:
    from app.cli.argument_parser import app_parser

    return AppArguments(**vars(app_parser().parse_args(words)))


def _parsed(words: Sequence[str]) -> "argparse.Namespace":
    """The words of a command; with `--json` among them what is wrong with them is a document, too."""
    from app.cli.argument_parser import UsageError, command_parser

    try:
        return command_parser().parse_args(words)
    except UsageError as wrong:
        if "--json" in words:
            from app.cli.command_output import ExitCode, print_json
            from app.cli.json_documents import ErrorDocument

            print_json(ErrorDocument(error=wrong.problem, code=ExitCode.USAGE))
        raise


def _without_readers(code: int) -> int:
    """The exit code, with what cannot be written any more sent nowhere: else the interpreter ends with 120.

    Who reads standard output may leave early (`signoff show P1 | head`), and is told as every command tells it; who
    reads standard error only listens, and changes nothing by leaving.
    """
    for stream, gone in ((sys.stdout, _READER_GONE), (sys.stderr, code)):
        try:
            # There is none where a program was started with it closed.
            if stream is not None:
                stream.flush()
        except BrokenPipeError:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            code = gone
        except OSError as full:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if not code and stream is sys.stdout:
                code = _tell_unwritable(full)
    return code


def _tell_unwritable(full: OSError) -> int:
    from app.cli.command_output import ExitCode, output_error, print_error

    print_error(output_error(full))
    return ExitCode.FAILED


def _run_command(arguments: "argparse.Namespace") -> int:
    # A command ends before it could fill the memory; looking for garbage costs a large one a fifth of its time.
    gc.set_threshold(_GARBAGE)
    try:
        return int(_command(arguments.command)(arguments))
    except Exception as error:
        from app.cli.command_output import exit_code

        code = exit_code(error)
        if code is None:
            raise
        return _refuse(arguments, error, code)


def _refuse(arguments: "argparse.Namespace", error: Exception, code: int) -> int:
    """Say why on standard error, and with `--json` also in the document that standard output promises."""
    from app.cli.command_output import CommandError, print_error, print_json
    from app.cli.json_documents import ErrorDocument

    print_error(str(error))
    if getattr(arguments, "json", False):
        # Where that cannot be written, it has been said by now.
        with contextlib.suppress(CommandError):
            print_json(ErrorDocument(error=str(error), code=code, done=getattr(error, "done", [])))
    return code


def _command(name: str) -> "Callable[[argparse.Namespace], int]":
    """The function of a command; only its own module is imported."""
    match name:
        case "run":
            from app.cli.headless_run import run

            return run
        case "ask":
            from app.cli.ask_command import ask

            return ask
        case "proposals":
            from app.cli.proposals_command import list_proposals

            return _in_workspace(list_proposals, recovering=False)
        case "show" | "stage" | "push" | "check" | "checks" | "approve" | "deny" | "undo" | "redo":
            return _in_workspace(_proposal_command(name))
        case "sessions" | "search" | "export" | "import" | "log" | "trailers" | "notes":
            return _in_workspace(_record_command(name))
        case "doctor" | "doors" | "keys" | "servers":
            return _in_workspace(_telling(name))
        case "mcp" | "demo-server":
            return _server(name)
        case _:
            from app.cli.reference_commands import print_completion

            return print_completion


def _telling(name: str) -> "Callable[[Any, argparse.Namespace], int]":
    match name:
        case "doctor":
            from app.cli.doctor_command import doctor

            return doctor
        case "doors":
            from app.cli.door_commands import list_doors

            return list_doors
        case "servers":
            from app.cli.server_command import list_servers

            return list_servers
        case _:
            from app.cli.reference_commands import list_keys

            return list_keys


def _server(name: str) -> "Callable[[argparse.Namespace], int]":
    if name == "mcp":
        from app.cli.mcp_command import serve_mcp

        return serve_mcp
    from app.cli.demo_server_command import serve_demo

    return serve_demo


def _record_command(name: str) -> "Callable[[Any, argparse.Namespace], int]":
    if name in ("trailers", "notes"):
        from app.cli import record_commands

        return {"trailers": record_commands.print_trailers, "notes": record_commands.write_notes}[name]
    if name == "import":
        from app.cli.session_commands import import_session

        return import_session
    from app.cli import session_commands

    return {
        "sessions": session_commands.list_sessions,
        "search": session_commands.search_sessions,
        "export": session_commands.export_session,
        "log": session_commands.print_log,
    }[name]


def _proposal_command(name: str) -> "Callable[[Any, argparse.Namespace], int]":
    if name == "show":
        from app.cli.proposal_commands import show

        return show
    if name in ("stage", "push"):
        from app.cli import proposal_commands

        return {"stage": proposal_commands.stage, "push": proposal_commands.push}[name]
    if name in ("check", "checks"):
        from app.cli import check_commands

        return {"check": check_commands.check, "checks": check_commands.suggest}[name]
    from app.cli import decision_commands

    return {
        "approve": decision_commands.approve,
        "deny": decision_commands.deny,
        "undo": decision_commands.undo,
        "redo": decision_commands.redo,
    }[name]


def _in_workspace(
    command: "Callable[[Any, argparse.Namespace], int]", *, recovering: bool = True
) -> "Callable[[argparse.Namespace], int]":
    """The command with its workspace opened and, unless it sees to that itself, put right before."""

    def run(arguments: "argparse.Namespace") -> int:
        from app.cli.command_output import check_folder, print_error
        from app.runtime.open_workspace import open_runtime

        check_folder(arguments.workspace)
        runtime = open_runtime(Path(arguments.workspace), settings_of_flags(arguments))
        runtime.hook_dispatcher.tell = print_error
        try:
            if recovering:
                from app.runtime.workspace_recovery import recover_and_report

                recover_and_report(runtime, print_error)
            return command(runtime, arguments)
        finally:
            runtime.close()

    return run


def _open_app(arguments: AppArguments) -> int:
    # What error messages need is loaded once there is one: it all stands between the user and the first picture.
    if problem := _not_a_folder(arguments.workspace):
        return _wrong_usage(problem)
    # Textual draws on standard error.
    if not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return _wrong_usage("The app needs a terminal; use `signoff run PROMPT` in a pipe, or see `signoff --help`.")
    from app.workspace.breadth import describe_broad_folder

    if (
        arguments.workspace is None
        and not arguments.demo
        and (what := describe_broad_folder(Path()))
        and not _means(what)
    ):
        return 0
    from app.runtime.typed_ahead import capture_typed_keys
    from app.ui.terminal import garbage_collection

    # Before the imports: of what they make next to nothing is garbage.
    garbage_collection.pause()
    try:
        with capture_typed_keys():
            from app.cli.open_app import open_app

            return open_app(arguments)
    except Exception as error:
        from app.cli.command_output import exit_code, print_error

        code = exit_code(error)
        if code is None:
            raise
        print_error(str(error))
        return code


def _means(what: str) -> bool:
    """Whether the user wants to open what is more than a project, and was named by nobody."""
    from app.workspace.breadth import broad_folder_warning

    sys.stdout.write(
        f"{broad_folder_warning(what)}\nOpen it all the same? `signoff FOLDER` opens another one. [y/N] "
    )
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _wrong_usage(problem: str) -> int:
    from app.cli.command_output import ExitCode, print_error

    print_error(problem)
    return ExitCode.USAGE


def _not_a_folder(workspace: str | None) -> str:
    """Why this cannot be opened, with the command that may have been meant; empty if it can."""
    if workspace is None or Path(workspace).is_dir():
        return ""
    import difflib

    meant = difflib.get_close_matches(workspace, COMMANDS, n=1)
    hint = f"Did you mean `signoff {meant[0]}`?" if meant else "Give the folder to open, or see `signoff --help`."
    return f"There is no folder {workspace!r}. {hint}"
