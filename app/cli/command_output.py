"""Output of commands: text for users, JSON for programs, exit codes; streams that are safe for a terminal."""

import os
import re
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import IntEnum
from io import TextIOWrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast

from app.text.safe_text import escape_unsafe

if TYPE_CHECKING:
    from argparse import Namespace

    from pydantic import BaseModel

    from app.agent.trace import TraceFileWriter
    from app.cli.app_arguments import AppArguments
    from app.runtime.open_workspace import OpenWorkspace
    from app.storage.session_store import SessionRecord


CUT_ANSWER = "The answer was cut off before it was finished."
"""Follows the incomplete answer to a side question."""


class ExitCode(IntEnum):
    """Exit codes of the command line; scripts rely on them."""

    DONE = 0
    FAILED = 1
    """The request failed."""
    USAGE = 2
    REFUSED = 3
    """Stale, conflicting or unsafe."""
    LIMIT = 4
    """A limit set by the user ended the turn."""


class CommandError(Exception):
    """A command cannot be carried out; the message is one line for standard error."""

    def __init__(self, message: str, code: int = ExitCode.FAILED, completed: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.code = code
        self.done = list(completed)
        """Ids of the proposals that were decided before the error."""


class OutputNotWritten(Exception):
    """Standard output cannot be written, so the command ends; the message is one line for standard error."""


def exit_code_for(error: Exception) -> int | None:
    """Return the exit code for an error that the user can cause; None for a defect."""
    from app.config.settings import ConfigError
    from app.proposals.values.proposal_errors import ProposalError
    from app.storage import SessionNotFoundOrAmbiguous, StorageError
    from app.workspace.path_rules import WorkspaceError

    match error:
        case CommandError():
            return error.code
        case ProposalError() | WorkspaceError():
            return ExitCode.REFUSED
        case ConfigError() | SessionNotFoundOrAmbiguous():
            return ExitCode.USAGE
        case StorageError() | OutputNotWritten():
            return ExitCode.FAILED
        case _:
            return None


@contextmanager
def open_debug_file(path: str | None) -> "Iterator[TraceFileWriter | None]":
    """Open the file of `--debug`, if it is given, for the `with` block. Raises CommandError."""
    if path is None:
        yield None
        return
    from app.agent.trace import TraceFileWriter

    try:
        opened = TraceFileWriter(Path(path))
    except OSError as error:
        raise CommandError(
            f"--debug {path}: it can't be written: {error.strerror or error}.", ExitCode.USAGE
        ) from error
    try:
        yield opened
    finally:
        opened.close()


def session_from_arguments(runtime: "OpenWorkspace", arguments: "Namespace | AppArguments") -> "SessionRecord | None":
    """Return the session of `--session` or `--continue`, None without.

    Raises CommandError and SessionNotFoundOrAmbiguous.
    """
    if arguments.session:
        return runtime.sessions.get(arguments.session)
    if not arguments.resume:
        return None
    latest = runtime.sessions.latest()
    if latest is None:
        raise CommandError("There is no session to continue here.", ExitCode.USAGE)
    return latest


def can_open_folder(path: str) -> bool:
    """Return whether this is a folder in which files can be listed and read; not if it was deleted."""
    with suppress(OSError), os.scandir(f"{Path(path).absolute()}/."):
        return True
    return False


def require_workspace_folder(workspace: str, *, refuse_broad: bool = False) -> None:
    """Raise CommandError if `--workspace` is not a folder that can be opened.

    Args:
        workspace: The value of `--workspace`.
        refuse_broad: Refuse a folder with more than one project, for example the home folder, because a model can
            read all of it. If the user has named it, only print a warning.
    """
    if not can_open_folder(workspace):
        raise CommandError(
            f"{workspace} is not a folder that can be opened; --workspace takes the workspace to use.", ExitCode.USAGE
        )
    if not refuse_broad:
        return
    from app.workspace.broad_folder import broad_folder_warning, describe_broad_folder

    if what := describe_broad_folder(Path(workspace)):
        if workspace == ".":
            import shlex

            here = shlex.quote(str(Path.cwd()))
            raise CommandError(
                f"{broad_folder_warning(what)} Go to a project, or give --workspace {here}.", ExitCode.REFUSED
            )
        print_error(broad_folder_warning(what))


def read_stdin_text(what_to_type: str) -> str:
    """Return all of standard input as text; on a terminal, first print what to type. Raises CommandError."""
    try:
        return read_stdin_bytes(what_to_type).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise CommandError(
            f"Standard input is not UTF-8 text: {error.reason} at byte {error.start}.", ExitCode.USAGE
        ) from error


def read_stdin_bytes(what_to_type: str) -> bytes:
    """Return all of standard input; on a terminal, first print what to type."""
    if sys.stdin.isatty():
        sys.stderr.write(f"signoff: Type {what_to_type}, then Ctrl-D.\n")
    return sys.stdin.buffer.read()


def print_json(document: "BaseModel | Sequence[BaseModel]") -> None:
    """Print one JSON document, or a list of documents."""
    if not isinstance(document, Sequence):
        text = document.model_dump_json(indent=2)
    elif document:
        from pydantic import BaseModel, TypeAdapter

        text = TypeAdapter(list[BaseModel]).dump_json(list(document), indent=2, serialize_as_any=True).decode()
    else:
        text = "[]"
    if sys.stdout.isatty():
        import json

        # Escape all characters that could control the terminal; the JSON stays equivalent.
        text = re.sub(r"[^\n -~]", lambda found: json.dumps(found[0])[1:-1], text)
    _write_stdout(text + "\n")


def print_json_line(document: "BaseModel") -> None:
    """Print a JSON document on one line and flush it; fields with default values are left out."""
    import json

    print_part(json.dumps(document.model_dump(mode="json", exclude_defaults=True)) + "\n")


def print_text(text: str) -> None:
    """Print a text unchanged, for example a patch; on a terminal, make control characters visible."""
    if sys.stdout.isatty():
        _write_stdout(text)
        return
    with _raise_write_errors():
        # Write bytes, because a diff contains the encodings and line endings of its files.
        sys.stdout.flush()
        sys.stdout.buffer.write(text.encode("utf-8", "surrogateescape"))
        sys.stdout.buffer.flush()


def print_line(text: str) -> None:
    """Print one line with control characters made visible."""
    _write_stdout(escape_unsafe(text) + "\n")


def print_part(text: str) -> None:
    """Print a part of a line with control characters made visible, and flush it."""
    with _raise_write_errors():
        sys.stdout.write(escape_unsafe(text))
        sys.stdout.flush()


def _write_stdout(text: str) -> None:
    with _raise_write_errors():
        sys.stdout.write(text)


@contextmanager
def _raise_write_errors() -> Iterator[None]:
    """Raise OutputNotWritten if standard output cannot be written, but let BrokenPipeError pass."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise OutputNotWritten(stdout_error_message(error)) from error


def stdout_error_message(error: OSError) -> str:
    """Return the message for an error of writing standard output."""
    return f"Standard output cannot be written: {error.strerror or error}."


def print_error(text: str) -> None:
    """Print one line to standard error; an error of writing it changes nothing."""
    with suppress(OSError):
        sys.stderr.write("signoff: " + escape_unsafe(" ".join(text.split())) + "\n")


class _EscapingStream:
    """A stream that makes control characters visible, and does not allow writing bytes."""

    def __init__(self, stream: TextIO) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        """Write the text with control characters made visible."""
        self._stream.write(escape_unsafe(text))
        return len(text)

    def __getattr__(self, name: str) -> Any:
        if name == "buffer":
            raise AttributeError("bytes are not for a terminal: use write")
        return getattr(self._stream, name)


def open_null_for_closed_streams() -> None:
    """Open the null device for each standard stream that is closed.

    Standard input is then empty. Writing to standard output fails, as on a full disk.
    """
    for number, name, access in ((0, "stdin", os.O_RDONLY), (1, "stdout", os.O_RDONLY), (2, "stderr", os.O_WRONLY)):
        if getattr(sys, name) is None:
            os.dup2(os.open(os.devnull, access), number)
            setattr(sys, name, os.fdopen(number, "r" if name == "stdin" else "w"))


def escape_control_characters_on_terminals() -> None:
    """Wrap stdout and stderr, if they are terminals, to show control characters escaped."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        if stream is not None and stream.isatty() and not isinstance(stream, _EscapingStream):
            if hasattr(stream, "reconfigure"):
                # Don't fail on a character that the terminal's encoding lacks.
                stream.reconfigure(errors="replace")
            setattr(sys, name, cast(TextIO, _EscapingStream(stream)))
        elif isinstance(stream, TextIOWrapper):
            # Don't fail on a character that the locale's encoding lacks; in JSON strings the escape is equivalent.
            stream.reconfigure(errors="backslashreplace")
