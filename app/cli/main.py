"""Entry point of the command line: parses arguments, opens the workspace and runs the command."""

import contextlib
import gc
import os
import signal
import sys
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

from app.cli.app_arguments import COMMANDS, AppArguments, environment_wants_plain_mode, settings_from_flags
from app.cli.command_output import (
    ExitCode,
    OutputNotWritten,
    can_open_folder,
    escape_control_characters_on_terminals,
    exit_code_for,
    open_null_for_closed_streams,
    print_error,
    print_json,
    print_json_line,
    require_workspace_folder,
    stdout_error_message,
)

if TYPE_CHECKING:
    import argparse

_BROKEN_PIPE_CODE = 128 + signal.SIGPIPE
_GARBAGE_COLLECTION_THRESHOLD = 200_000
"""New objects that start a garbage collection."""


def main(arguments: Sequence[str] | None = None) -> int:
    """Run signoff and return its exit code: 0 done, 1 failed, 2 wrong usage, 3 refused."""
    try:
        code = _run_words(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BrokenPipeError:
        code = _BROKEN_PIPE_CODE
    except SystemExit as parsed:  # argparse printed the help or a usage error
        code = int(parsed.code or 0)
    return _flush_streams(code)


def _run_words(words: Sequence[str]) -> int:
    if words[:1] != ["mcp"]:
        # `mcp` checks them itself.
        open_null_for_closed_streams()
    escape_control_characters_on_terminals()
    # Otherwise pydantic searches the metadata of all installed packages for plugins.
    os.environ.setdefault("PYDANTIC_DISABLE_PLUGINS", "__all__")
    if words and words[0] in COMMANDS:
        return _run_command(_parse_command(words))
    if words and not words[0].startswith("-") and (problem := _not_a_folder_problem(words[0])):
        return _print_usage_error(problem)
    if not words:
        return _open_app(AppArguments())
    from app.cli.argument_parser import make_app_parser

    return _open_app(AppArguments(**vars(make_app_parser().parse_args(words))))


def _parse_command(words: Sequence[str]) -> "argparse.Namespace":
    """Parse the arguments of a command; with `--json`, also print a usage error as a document."""
    from app.cli.argument_parser import UsageError, make_command_parser

    try:
        return make_command_parser().parse_args(words)
    except UsageError as wrong:
        if "--json" in words:
            from app.cli.json_documents import ErrorDocument

            print_json(ErrorDocument(error=wrong.problem, code=ExitCode.USAGE))
        raise


def _flush_streams(code: int) -> int:
    """Flush the standard streams and return the exit code; Python would exit with 120 if its own flush failed.

    If the reader of standard output has ended early (`signoff show P1 | head`), the code is that of SIGPIPE. Errors
    of standard error change nothing.
    """
    for stream in (sys.stdout, sys.stderr):
        try:
            # None if the program was started with the stream closed.
            if stream is not None:
                stream.flush()
        except OSError as error:
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
            if stream is sys.stdout and isinstance(error, BrokenPipeError):
                code = _BROKEN_PIPE_CODE
            elif stream is sys.stdout and not code:
                print_error(stdout_error_message(error))
                code = ExitCode.FAILED
    return code


def _run_command(arguments: "argparse.Namespace") -> int:
    # A command ends before it fills the memory; garbage collection takes a fifth of the time of a long one.
    gc.set_threshold(_GARBAGE_COLLECTION_THRESHOLD)
    command = COMMANDS[arguments.command]
    if getattr(arguments, "schema", False):
        command = command._replace(module="keys_servers_completion", function="print_schema", opens_workspace=False)
    try:
        run = getattr(import_module(f"app.cli.{command.module}"), command.function)
        if command.opens_workspace:
            return int(_run_in_workspace(run, arguments, recovers=command.recovers))
        return int(run(arguments))
    except Exception as error:
        code = exit_code_for(error)
        if code is None:
            raise
        print_error(str(error))
        if getattr(arguments, "json", False):
            from app.cli.json_documents import ErrorDocument

            write = print_json_line if getattr(arguments, "watch", False) else print_json
            # If standard output cannot be written, the reason is already on standard error.
            with contextlib.suppress(OutputNotWritten):
                write(ErrorDocument(error=str(error), code=code, done=getattr(error, "done", [])))
        return code


def _run_in_workspace(run: Callable[..., int], arguments: "argparse.Namespace", *, recovers: bool) -> int:
    from app.runtime.open_workspace import open_workspace

    require_workspace_folder(arguments.workspace)
    runtime = open_workspace(Path(arguments.workspace), settings_from_flags(arguments))
    runtime.hook_dispatcher.notify = print_error
    try:
        if recovers:
            from app.runtime.unfinished_work import recover_interrupted_work_and_notify

            recover_interrupted_work_and_notify(runtime, print_error)
        return run(runtime, arguments)
    finally:
        runtime.close()


def _open_app(arguments: AppArguments) -> int:
    # Import modules for error messages only on an error: imports delay the first picture.
    if problem := _not_a_folder_problem(arguments.workspace or "."):
        return _print_usage_error(problem)
    is_plain = arguments.plain or environment_wants_plain_mode()
    # Textual draws on standard error.
    if not is_plain and not all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)):
        return _print_usage_error(
            "The app needs a terminal; use `signoff run PROMPT` in a pipe, or see `signoff --help`."
        )
    from app.workspace.broad_folder import describe_broad_folder

    if (
        arguments.workspace is None
        and not arguments.demo
        and (what := describe_broad_folder(Path()))
        and not _confirm_opening(what)
    ):
        return 0
    try:
        if not is_plain:
            return _open_screen(arguments)
        from app.cli.plain_chat import open_plain_chat

        return open_plain_chat(arguments)
    except Exception as error:
        code = exit_code_for(error)
        if code is None:
            raise
        print_error(str(error))
        return code


def _open_screen(arguments: AppArguments) -> int:
    from app.runtime.terminal_at_start import hold_terminal_and_show_first_picture
    from app.storage.app_dirs import find_app_dirs

    with hold_terminal_and_show_first_picture(find_app_dirs().first_pictures, arguments.theme):
        from app.ui.terminal import garbage_collection

        # Before the other imports, which create hardly any garbage.
        garbage_collection.pause_collection()
        from app.cli.open_app import open_app

        return open_app(arguments)


def _confirm_opening(what: str) -> bool:
    """Ask whether to open the current folder although it contains more than one project."""
    from app.workspace.broad_folder import broad_folder_warning

    sys.stdout.write(
        f"{broad_folder_warning(what)}\nOpen it all the same? `signoff FOLDER` opens another one. [y/N] "
    )
    sys.stdout.flush()
    return sys.stdin.readline().strip().lower() in ("y", "yes")


def _print_usage_error(problem: str) -> int:
    print_error(problem)
    return ExitCode.USAGE


def _not_a_folder_problem(workspace: str) -> str:
    """Return why this cannot be opened, with the command that may have been meant; empty if it can."""
    if can_open_folder(workspace):
        return ""
    import difflib

    meant = difflib.get_close_matches(workspace, COMMANDS, n=1)
    hint = f"Did you mean `signoff {meant[0]}`?" if meant else "Give the folder to open, or see `signoff --help`."
    return f"There is no folder {workspace!r} that can be opened. {hint}"
