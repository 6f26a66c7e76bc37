"""The user's editor: its command, and editing a text in it."""

import asyncio
import shlex
import tempfile
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path

from app.sandbox.environment import find_program_outside_workspace

_HOW_TO_SET = "Set $EDITOR, or `editor` in the configuration."


class EditorFailed(Exception):
    """There is no editor, or it failed; the message says what to do."""


def editor_command(configured: str, environment: Mapping[str, str]) -> list[str]:
    """Return the editor's command: the configured one, else `$VISUAL`, else `$EDITOR`.

    Raises:
        EditorFailed: none is set, or it cannot be parsed.
    """
    line = configured or environment.get("VISUAL", "") or environment.get("EDITOR", "")
    try:
        command = shlex.split(line)
    except ValueError as error:
        raise EditorFailed(f"The editor's command cannot be read: {error}.") from error
    if not command:
        raise EditorFailed("No editor is set: set $EDITOR, or `editor` in the configuration.")
    return command


async def edit_in_user_editor(
    command: list[str], text: str, *, file_name: str, cwd: Path, suspend: Callable[[], AbstractContextManager[None]]
) -> str:
    """Let the user edit a text in a file; return the saved text.

    Args:
        file_name: Name of the file; its extension tells the editor the language.
        cwd: Working directory of the editor, the workspace; a program without a path is not taken from there.
        suspend: Context manager that hands the terminal to the editor.

    Raises:
        EditorFailed: the editor cannot be started, or it ended with an error.
    """
    with ExitStack() as stack:
        try:
            temporary_folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="signoff-edit-"))
            file = Path(temporary_folder) / (Path(file_name).name or "text.txt")
            await asyncio.to_thread(file.write_bytes, text.encode("utf-8", "surrogateescape"))
        except OSError as error:
            problem = f"The text can't be written for {command[0]}: {error.strerror}."
            raise EditorFailed(f"{problem} Set TMPDIR to a folder with room.") from error
        # Read the file before the terminal is back: keys that are typed from then on must follow this text.
        with suspend():
            if code := await _run_editor(command, file, cwd):
                raise EditorFailed(f"{command[0]} ended with exit code {code}; the text is as it was.")
            try:
                return (await asyncio.to_thread(file.read_bytes)).decode("utf-8", "surrogateescape")
            except OSError as error:
                raise EditorFailed(f"What {command[0]} saved cannot be read: {error.strerror}.") from error


async def _run_editor(command: list[str], file: Path, folder: Path) -> int:
    # Commands of the model write to `.venv/bin` of the workspace, which may be in PATH.
    program = command[0] if "/" in command[0] else find_program_outside_workspace(command[0], folder)
    if program is None:
        raise EditorFailed(f"{command[0]} is not in PATH outside the workspace. {_HOW_TO_SET}")
    try:
        process = await asyncio.create_subprocess_exec(program, *command[1:], str(file), cwd=folder)
    except OSError as error:
        raise EditorFailed(f"{command[0]} cannot be started: {error.strerror}. {_HOW_TO_SET}") from error
    return await process.wait()
