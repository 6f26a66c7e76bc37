"""Run the user's external diff program (`diff.external`, such as difftastic) on a change.

A repository must not choose a program to run: the command comes from signoff's configuration, the environment, or
git's configuration of the user or system, never from the repository. The program runs in an empty folder, on copies
in which escape characters are visible, so that colours in the output come from the program and not from the file. It
gets no secrets. After a timeout, the program and all processes that it started are ended.
"""

import asyncio
import os
import shutil
import tempfile
import uuid
from collections.abc import Mapping
from functools import partial
from pathlib import Path

from msgspec import Struct

from app.git.run_git import read_user_git_setting
from app.sandbox.environment import absolute_search_path, configured_program_environment
from app.sandbox.process import StartFailed, end_process_tree, run_process

SECONDS = 20.0
MAX_DIFF_OUTPUT_BYTES = 1 << 20
"""Maximum bytes of output that are used."""
HOW_TO_SET = (
    "No diff program is set: `git config --global diff.external difft`, or `external_diff` in the configuration."
)

_ESCAPE_GLYPHS = ((b"\x1b", "␛".encode()), (b"\xc2\x9b", "␛[".encode()))
_ZERO_BLOB_ID = "0" * 40
"""The blob id that git passes for content outside a repository."""


class ExternalDiffInput(Struct, frozen=True):
    """The file that an external diff program compares, before and after a change; None where it does not exist."""

    path: str
    """Relative to the workspace."""
    old: bytes | None
    new: bytes | None


class ExternalDiffOutput(Struct, frozen=True):
    """The output of an external diff program, and why it is incomplete, if it is."""

    output: str
    problem: str = ""
    """Why the output is incomplete or missing; empty if the program succeeded."""


def external_diff_command(configured: str, environment: Mapping[str, str]) -> str:
    """Return the command line of the user's diff program; empty if there is none. Blocks while git runs.

    Args:
        configured: The command in signoff's configuration; empty if there is none.
        environment: May have `GIT_EXTERNAL_DIFF`, and locates git's configuration of the user.
    """
    if command := configured.strip() or environment.get("GIT_EXTERNAL_DIFF", "").strip():
        return command
    if command := read_user_git_setting("diff.external", environment):
        return command
    return "difft" if shutil.which("difft", path=absolute_search_path(environment)) else ""


async def run_external_diff(
    command: str, sides: ExternalDiffInput, *, width: int, dark: bool, environment: Mapping[str, str]
) -> ExternalDiffOutput:
    """Run the program on a file as git would; return its output with escape sequences.

    Args:
        command: A command line for the shell.
        environment: The program gets a copy without secrets.
    """
    marker = uuid.uuid4().hex
    output_bytes = bytearray()
    is_cut_off = False

    def take(data: bytes) -> None:
        nonlocal is_cut_off
        is_cut_off = is_cut_off or len(output_bytes) + len(data) > MAX_DIFF_OUTPUT_BYTES
        output_bytes.extend(data[: MAX_DIFF_OUTPUT_BYTES - len(output_bytes)])

    try:
        with tempfile.TemporaryDirectory(prefix="signoff-diff-", ignore_cleanup_errors=True) as folder:
            program_folder, arguments = await asyncio.to_thread(_write_sides, Path(folder), sides)
            process_result = await run_process(
                ["/bin/sh", "-c", f'{command} "$@"', "external-diff", *arguments],
                folder=program_folder,
                environment=_program_environment(environment, marker, width, dark=dark),
                seconds=SECONDS,
                output=take,
                end_process=partial(end_process_tree, marker=marker),
            )
    except (StartFailed, OSError) as error:
        return ExternalDiffOutput("", f"`{command}` could not be run ({error}).")
    output = output_bytes.decode("utf-8", "replace")
    if process_result.timed_out:
        return ExternalDiffOutput(output, f"`{command}` was ended after {SECONDS:.0f} s.")
    if is_cut_off:
        return ExternalDiffOutput(
            output, f"`{command}` printed more than {MAX_DIFF_OUTPUT_BYTES >> 20} MB; the rest is left out."
        )
    return ExternalDiffOutput(output, f"`{command}` ended with {process_result.code}." if process_result.code else "")


def _write_sides(folder: Path, sides: ExternalDiffInput) -> tuple[Path, list[str]]:
    """Write both sides to files; return the working folder of the program and its arguments."""
    program_folder = folder / "here"
    program_folder.mkdir()
    old, new = _write_side(folder / "old", sides.path, sides.old), _write_side(folder / "new", sides.path, sides.new)
    # A program would parse a leading dash as an option.
    path = f"./{sides.path}" if sides.path.startswith("-") else sides.path
    return program_folder, [path, *old, *new]


def _write_side(folder: Path, path: str, data: bytes | None) -> list[str]:
    """Write one side; return its path, id and mode. The file keeps its name, from which programs detect the
    language.
    """
    if data is None:
        return [os.devnull, ".", "."]
    folder.mkdir()
    file = folder / path.rpartition("/")[2]
    for escape, glyph in _ESCAPE_GLYPHS:
        data = data.replace(escape, glyph)
    file.write_bytes(data)
    return [str(file), _ZERO_BLOB_ID, "100644"]


def _program_environment(environment: Mapping[str, str], marker: str, width: int, *, dark: bool) -> dict[str, str]:
    program_environment = configured_program_environment(environment, marker)
    if "NO_COLOR" not in environment:
        del program_environment["NO_COLOR"]
        program_environment |= {
            "TERM": "xterm-256color",
            "COLORTERM": "truecolor",
            "CLICOLOR_FORCE": "1",
            "DFT_COLOR": "always",
        }
    return program_environment | {
        "PATH": absolute_search_path(environment),
        "COLUMNS": str(width),
        "DFT_WIDTH": str(width),
        "DFT_BACKGROUND": "dark" if dark else "light",
        "DELTA_PAGER": "cat",
        "GIT_DIFF_PATH_COUNTER": "1",
        "GIT_DIFF_PATH_TOTAL": "1",
    }
