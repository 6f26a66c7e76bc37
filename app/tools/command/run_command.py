"""`run_command`: runs a shell command after the user has allowed it."""

import asyncio
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from pydantic import Field

from app.copies import replace
from app.proposals.values.origin import CommandRecipe
from app.sandbox.captured_changes import FilesNotRestored, PathChange
from app.sandbox.confinement import CommandWriteMode, SandboxedWorkspace
from app.sandbox.environment import find_program_outside_workspace
from app.sandbox.process import ProcessExit, StartFailed, describe_exit
from app.tools.base.contract import PermissionRequest, Tool, ToolArguments, ToolContext, ToolError, ToolOutput
from app.tools.base.targets import normalize_workspace_path, os_errors_as_tool_errors
from app.tools.command.command_result import (
    IN_PLACE_NOTE,
    HeadAndTailBuffer,
    PlainTextDecoder,
    ThrottledOutput,
    describe_how_commands_run,
    notes_before_allowing_command,
    sandbox_failure_notes,
    stage_command_changes,
    write_ignored_and_collect_other_changes,
)
from app.workspace.git_repository import find_enclosing_bare_lookalike

if TYPE_CHECKING:
    from app.sandbox.sandbox import Sandbox

DEFAULT_SECONDS = 120
MAX_SECONDS = 600


class RunCommandArguments(ToolArguments):
    """Arguments of `run_command`."""

    command: str = Field(min_length=1, description="The command line, for a POSIX shell.")
    folder: str | None = Field(
        default=None, description="Where to run it, relative to the workspace root. Default: the root."
    )
    timeout_seconds: int | None = Field(
        default=None,
        ge=1,
        le=MAX_SECONDS,
        description=f"Time limit. Default: {DEFAULT_SECONDS}, at most {MAX_SECONDS}.",
    )


class RunCommand(Tool):
    """Asks for permission, runs the command on the workspace with pending edits, and stages its changes."""

    name = "run_command"
    kind = "command"
    Arguments = RunCommandArguments
    description = (
        "Run a shell command in the workspace, for instance tests, a formatter or a code generator. The user is "
        "shown the exact command and must allow it first. There is no input and no terminal; everything that it "
        "starts ends with it. It sees the workspace with all staged edits. What it changes there is staged as a "
        "proposal too, not written; what git ignores (builds, caches) is written as it is. `.git` can't be written: "
        "commits are the user's. The result has the exit code and the output; of long output both ends."
    )

    def __init__(self, sandbox: "Callable[[], Sandbox]") -> None:
        self._sandbox = sandbox

    async def run(self, arguments: RunCommandArguments, context: ToolContext) -> ToolOutput:
        if "\0" in arguments.command:
            raise ToolError("The command has a NUL character in it.")
        folder = normalize_workspace_path(context.workspace, arguments.folder or ".")
        _check_folder(context, folder)
        sandbox = await asyncio.to_thread(self._sandbox)
        probe = await sandbox.probe()
        if probe.refusal:
            raise ToolError(f"Commands do not run here: {probe.refusal}.")
        if context.planning and probe.mode is CommandWriteMode.IN_PLACE:
            raise ToolError(f"Plan mode: not on your own files. Commands here {describe_how_commands_run(probe)}.")
        notes = notes_before_allowing_command(
            probe, sandbox.permissions, plan_mode=context.planning, hold_ignored=context.hold_ignored
        )
        added, _ = await asyncio.to_thread(context.draft.added_and_removed_paths)
        bare = find_enclosing_bare_lookalike(context.workspace.root, folder, added)
        only_once = f"git may run programs that {bare}/config names" if bare else ""
        answer = await context.confirm(
            PermissionRequest("command", "Run a command?", arguments.command, folder, notes, only_once=only_once)
        )
        if not answer.allowed:
            raise answer.to_rejection(
                "The user did not allow this command. It did not run.", "The command did not run"
            )
        _check_folder(context, folder)
        in_place = probe.mode is CommandWriteMode.IN_PLACE
        try:
            pending = await asyncio.to_thread(context.draft.pending_files)
            async with sandbox.open_run(pending, keep_files=True) as run:
                output, changes = await self._execute_in(run, arguments, folder, context, in_place=in_place)
                if in_place and (pending or changes):
                    output = replace(output, text=f"{IN_PLACE_NOTE}\n{output.text}")
        except FilesNotRestored as error:
            raise ToolError(f"{error}.") from error
        except OSError as error:
            raise ToolError(f"The command could not be run: {error.strerror or error}.") from error
        if changes:
            recipe = None if in_place else _make_recipe(arguments, folder, sandbox.permissions.variables)
            output = await stage_command_changes(
                context, output, changes, arguments.command, ran_in_place=in_place, recipe=recipe
            )
        if answer.unasked:
            return replace(output, summary=f"{output.summary}, allowed: {answer.unasked}")
        return output

    async def _execute_in(
        self,
        run: SandboxedWorkspace,
        arguments: RunCommandArguments,
        folder: str,
        context: ToolContext,
        *,
        in_place: bool,
    ) -> tuple[ToolOutput, list[PathChange]]:
        limit = arguments.timeout_seconds or DEFAULT_SECONDS
        program = [*find_command_shell(context.workspace.root), arguments.command]
        collector = _OutputCollector(context)
        try:
            result = await run.execute(program, folder=folder, seconds=limit, output=collector.feed)
        except StartFailed as error:
            raise ToolError(f"The command could not be started: {error}.") from error
        finally:
            collector.finish()
        text, summary = collector.format_result(result, limit)
        text = "\n".join([text, *sandbox_failure_notes(text, result, in_place=in_place)])
        output = ToolOutput(text, summary, failed=result.timed_out or result.code != 0)
        return await write_ignored_and_collect_other_changes(run, context, output, arguments.command)


class _OutputCollector:
    """Output of a command, shown live and returned at its end."""

    def __init__(self, context: ToolContext) -> None:
        self._decoder = PlainTextDecoder()
        self._buffer = HeadAndTailBuffer()
        self._live = ThrottledOutput(context.output)

    def feed(self, data: bytes, *, final: bool = False) -> None:
        """Add a piece of output."""
        text = self._decoder.feed(data, final=final)
        self._buffer.feed(text)
        self._live.feed(text)

    def finish(self) -> None:
        """End the output."""
        self.feed(b"", final=True)
        self._live.flush()

    def format_result(self, ended: ProcessExit, limit: int) -> tuple[str, str]:
        """Return the output as text for the model, and a summary for the user."""
        if ended.timed_out:
            state, summary = f"stopped after {limit} s, its time limit", "timed out"
        elif ended.code < 0:
            state = summary = describe_exit(ended.code)
        else:
            state, summary = f"exit code {ended.code}", f"exit {ended.code}"
        head = f"[{state}; {ended.seconds:.1f} s]"
        if ended.limit:
            head += f"\n[stopped: {ended.limit}]"
        elif ended.had_running_children and not ended.timed_out:
            head += "\n[processes that it left running were ended]"
        text = self._buffer.text()
        lines = self._buffer.lines
        if lines:
            summary += f", {lines} line{'' if lines == 1 else 's'}"
        return f"{head}\n{text}" if text else f"{head}\n[no output]", summary


def _check_folder(context: ToolContext, folder: str) -> None:
    with os_errors_as_tool_errors(folder):
        kind = context.workspace.kind(folder)
    if kind != "folder":
        raise ToolError(f"{folder} is not a folder on disk." if kind != "missing" else f"{folder} does not exist.")


def _make_recipe(arguments: RunCommandArguments, folder: str, variables: Sequence[str]) -> CommandRecipe:
    """Return the data to run the command again; called after the sandbox has run, so its modules are loaded."""
    from app.sandbox.environment import command_environment_digest

    return CommandRecipe(
        command=arguments.command,
        folder=folder,
        seconds=arguments.timeout_seconds or DEFAULT_SECONDS,
        environment=command_environment_digest(os.environ, variables),
    )


def find_command_shell(root: Path) -> list[str]:
    """Return bash, as models write for it, or else the system's shell; never a program inside the workspace."""
    bash = find_program_outside_workspace("bash", root)
    return [bash, "--noprofile", "--norc", "-c"] if bash else ["/bin/sh", "-c"]
