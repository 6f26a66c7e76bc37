"""Results of a command: its output as text, its changes staged or written to disk, and notes about the sandbox."""

import asyncio
import codecs
import errno
import os
import re
import sys
from collections import deque
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from app.copies import replace
from app.proposals.files.filesystem import MAX_CHANGED_FILE_BYTES
from app.proposals.risk.change_summary import default_command_summary
from app.proposals.text.document import MAX_BYTES
from app.proposals.text.file_warnings import format_size
from app.proposals.values.models import EditReport
from app.proposals.values.origin import CommandRecipe
from app.sandbox.captured_changes import (
    IGNORED_FILES_LABEL,
    CommandFileChanges,
    PathChange,
    describe_written_ignored_paths,
)
from app.sandbox.confinement import (
    ChangedByCommandAndOtherProgram,
    ChangesReaderWithIgnoredWriteBack,
    CommandWriteMode,
    ConfiguredCommandAccess,
    SandboxCapabilities,
)
from app.text.quantities import format_count, join_first
from app.text.safe_text import escape_unsafe
from app.tools.base.contract import PermissionRequest, ToolContext, ToolOutput
from app.tools.base.targets import make_staged_result_json, refusals_as_tool_errors

if TYPE_CHECKING:
    from app.sandbox.process import ProcessExit


HEAD_CHARACTERS = 8_000
"""Characters of output kept from the start."""
TAIL_CHARACTERS = 24_000
"""Characters of output kept from the end, where errors usually are."""
LIVE_INTERVAL_SECONDS = 0.05
"""Seconds between two updates of live output."""
MAX_LIVE_CHARACTERS = 16_000
"""Maximum number of characters of one update; the start of a longer one is left out."""
_MAX_WAITING_CHARACTERS = 8 * MAX_LIVE_CHARACTERS
"""Maximum number of characters buffered for the next update, even if the event loop is late."""

_CONTROL_SEQUENCE = re.compile(
    r"(?:\x1b\[|\x9b)[0-?]*[ -/]*[@-~]"  # CSI
    r"|(?:\x1b[\]PX^_]|[\x90\x98\x9d-\x9f])[^\x07\x1b\x90-\x9f]*(?:\x07|\x1b\\|\x9c)"  # OSC, DCS, SOS, PM, APC
    r"|\x1b[ -/]*[0-OQ-WYZ\\`-~]"  # two or more characters, without CSI and strings
)
"""Control sequences of ECMA-48, and xterm's BEL as the end of a string."""
_C1_CONTROL = re.compile(r"[\x90\x98\x9b\x9d-\x9f]")
_UNFINISHED_SEQUENCE = re.compile(r"(?:\x1b|[\x90\x98\x9b\x9d-\x9f])[^\x07\x9c\n]*\Z")
_MAX_SEQUENCE_CHARACTERS = 500
"""Maximum number of characters at the end of a piece that are held back as a possible start of a sequence."""


class PlainTextDecoder:
    """Incremental decoder of UTF-8 that removes terminal sequences, even if they are split between pieces."""

    def __init__(self) -> None:
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")
        self._unfinished = ""

    def feed(self, data: bytes, *, final: bool = False) -> str:
        """Return the decoded text; hold back an unfinished sequence at its end."""
        text = self._unfinished + self._decoder.decode(data, final)
        self._unfinished = ""
        # Most output has no sequences, and this check is ten times as fast as the search for them.
        if "\x1b" not in text and (text.isascii() or not _C1_CONTROL.search(text)):
            return text
        text = _CONTROL_SEQUENCE.sub("", text)
        if not final and (
            unfinished := _UNFINISHED_SEQUENCE.search(text, max(0, len(text) - _MAX_SEQUENCE_CHARACTERS))
        ):
            self._unfinished = text[unfinished.start() :]
            text = text[: unfinished.start()]
        return text


class HeadAndTailBuffer:
    """Keeps the start and the end of a long text, and counts the characters between them."""

    def __init__(self, head: int = HEAD_CHARACTERS, tail: int = TAIL_CHARACTERS) -> None:
        self._head_size = head
        self._tail_size = tail
        self._head: list[str] = []
        self._head_characters = 0
        self._tail: deque[str] = deque()
        self._tail_characters = 0
        self._omitted_characters = 0
        self._omitted_newlines = 0
        self.lines = 0
        """Number of newlines in the whole text."""

    def feed(self, text: str) -> None:
        """Add text."""
        self.lines += text.count("\n")
        if room := self._head_size - self._head_characters:
            self._head.append(text[:room])
            self._head_characters += len(self._head[-1])
            text = text[room:]
        self._tail.append(text)
        self._tail_characters += len(text)
        while self._tail_characters > self._tail_size:
            excess = self._tail_characters - self._tail_size
            first = self._tail.popleft()
            removed = first[:excess]
            if len(first) > excess:
                self._tail.appendleft(first[excess:])
            self._tail_characters -= len(removed)
            self._omitted_characters += len(removed)
            self._omitted_newlines += removed.count("\n")

    def text(self) -> str:
        """Return start and end, with a line between them that says how much is left out."""
        head, tail = "".join(self._head), "".join(self._tail)
        if not self._omitted_characters:
            return remove_text_overwritten_by_cr(head + tail)
        gap = f"\n[{self._omitted_characters:,} characters with {self._omitted_newlines:,} newlines left out]\n"
        return remove_text_overwritten_by_cr(head) + gap + remove_text_overwritten_by_cr(tail)


class ThrottledOutput:
    """Sends output to the screen at a limited rate."""

    def __init__(self, send: Callable[[str], None]) -> None:
        self._send = send
        self._waiting: list[str] = []
        self._characters = 0
        self._timer: asyncio.TimerHandle | None = None

    def feed(self, text: str) -> None:
        """Add text; it is sent within `LIVE_INTERVAL_SECONDS`."""
        self._waiting.append(text)
        self._characters += len(text)
        if self._characters > _MAX_WAITING_CHARACTERS:
            # Keep one character more than is sent: it shows `flush` that something is left out.
            self._waiting = ["".join(self._waiting)[-MAX_LIVE_CHARACTERS - 1 :]]
            self._characters = len(self._waiting[0])
        if self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(LIVE_INTERVAL_SECONDS, self.flush)

    def flush(self) -> None:
        """Send the buffered output."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        text = "".join(self._waiting)
        self._waiting.clear()
        self._characters = 0
        if len(text) > MAX_LIVE_CHARACTERS:
            text = f"…\n{text[-MAX_LIVE_CHARACTERS:]}"
        if text:
            self._send(text)


def remove_text_overwritten_by_cr(text: str) -> str:
    """Return the text that remains visible after carriage returns, which progress bars use."""
    return "\n".join(line.rstrip("\r").rpartition("\r")[2] for line in text.split("\n"))


MAX_UNASKED_FILES = 500
MAX_UNASKED_BYTES = 20 * 1024 * 1024
"""Above either limit, the user is asked before changes are staged."""
MAX_CHANGE_BYTES = 250_000_000
"""Maximum number of bytes before and after of all changes of one command, which are in memory at the same time."""
DISCARDED_LABEL = "thrown away, ignored by git"
LEFT_ON_DISK_LABEL = "left as it is on disk, ignored by git"
_KEPT_IN_FOLDER = "the command's version is kept in"
_MAX_NAMED_PATHS = 10
"""Maximum number of names in each list for the model."""
_MAX_SHOWN_PATHS = 200
"""Maximum number of names that the question lists."""


async def write_ignored_and_collect_other_changes(
    run: ChangesReaderWithIgnoredWriteBack, context: ToolContext, output: ToolOutput, command: str
) -> tuple[ToolOutput, list[PathChange]]:
    """Write the git-ignored changes to disk, and read the command's other changes.

    In plan mode, all changes are discarded.

    Returns:
        The output with notes on these steps, and the changes to stage.
    """
    changes_found = await run.find_changes()
    if context.planning:
        written_paths = (
            change.path for change in (await run.write_back(changes_found.ignored_paths, dry_run=True)).written
        )
        names = (*(change.path for change in changes_found.touched), *written_paths)
        return _add_notes(
            output, [format_path_note_for_model("plan mode: what it changed was thrown away", names)], ""
        ), []
    notes: list[str] = []
    thrown_away = ""
    if len(changes_found.touched) > MAX_UNASKED_FILES or changes_found.size > MAX_UNASKED_BYTES:
        size = f"{len(changes_found.touched):,} changed files ({format_size(changes_found.size)})"
        answer = await context.confirm(_changes_request(changes_found, size, command))
        if not answer.allowed:
            denial = "nobody could be asked to stage them, so" if answer.unattended else "the user had"
            thrown_away = f"{size} thrown away"
            notes.append(f"[{denial} {thrown_away}; nothing was staged]")
    changes, left_out = ([], []) if thrown_away else await asyncio.to_thread(read_changes, run, changes_found)
    notes.append(format_path_note_for_model("not kept", (*changes_found.unsupported, *left_out)))
    not_staged = [thrown_away] if thrown_away else left_out
    ignored_notes, ignored_summary = await _write_back_ignored(
        run, context, changes_found.ignored_paths, command, not_staged
    )
    summary = ", ".join(filter(None, (ignored_summary, thrown_away)))
    return _add_notes(output, [*ignored_notes, *notes], summary), changes


async def _write_back_ignored(
    run: ChangesReaderWithIgnoredWriteBack,
    context: ToolContext,
    paths: Sequence[str],
    command: str,
    not_staged: Sequence[str],
) -> tuple[list[str], str]:
    """Write the ignored files if the user allows it; return lines for the model and a summary for the user.

    Always ask if a change is not staged: it may be where the command has moved an ignored file.
    """
    asks = context.hold_ignored or not_staged
    if asks and (held_paths := (await run.write_back(paths, dry_run=True)).written):
        descriptions = [change.summary for change in held_paths]
        answer = await context.confirm(_ignored_request(descriptions, command, not_staged))
        if not answer.allowed:
            return [
                format_path_note_for_model(DISCARDED_LABEL, descriptions, "; ")
            ], f"{DISCARDED_LABEL}: {join_first(descriptions, separator='; ')}"
    report = await run.write_back(paths)
    context.draft.ignored.extend(report.written)
    notes = [format_path_note_for_model(IGNORED_FILES_LABEL, [change.summary for change in report.written], "; ")]
    notes += [
        format_path_note_for_model(
            f"ignored by git, but not all of it could be written, {reason}",
            [path for path, why in report.failed.items() if why == reason],
        )
        for reason in dict.fromkeys(report.failed.values())
    ]
    skipped = [f"{path}: {why}" for path, why in report.skipped.items()]
    notes.append(format_path_note_for_model(LEFT_ON_DISK_LABEL, skipped, "; "))
    if report.kept_folder is not None:
        notes.append(f"[{_KEPT_IN_FOLDER} {report.kept_folder}, at the same paths]")
    summary = (
        describe_written_ignored_paths(report.written, 3),
        f"{LEFT_ON_DISK_LABEL}: {escape_unsafe(join_first(list(report.skipped), separator='; '), keep='')}"
        if report.skipped
        else "",
        f"{_KEPT_IN_FOLDER} {report.kept_folder}" if report.kept_folder else "",
    )
    return notes, ", ".join(filter(None, summary))


async def stage_command_changes(
    context: ToolContext,
    output: ToolOutput,
    changes: list[PathChange],
    command: str,
    *,
    ran_in_place: bool,
    recipe: CommandRecipe | None = None,
) -> ToolOutput:
    """Stage a command's changes; return the output with a description of them.

    Args:
        ran_in_place: The command ran directly on the user's files.
        recipe: The data to run the command again; None if it can't be run again.

    Raises:
        ToolError: The changes can't be staged; nothing was staged.
    """
    report = await _stage_changes(context, changes, recipe)
    if not context.draft.summaries:
        context.draft.summaries.append(default_command_summary(command))
    # The report counts a moved file once.
    files = format_count(len(report.files), "file")
    proposal = context.draft.ensure_proposal_id()
    staged_text = make_staged_result_json(proposal, report, context.staging_steps_left)
    notes = [f"[{files} changed; the workspace is as it was]", staged_text]
    summary = f"{files} {'put back' if ran_in_place else 'changed'} → {proposal}"
    return replace(_add_notes(output, notes, summary), staged=True)


def _changes_request(captured: CommandFileChanges, size: str, command: str) -> PermissionRequest:
    names = [
        f"{change.path}  {'deleted' if change.is_deleted else format_size(change.size)}"
        for change in captured.touched[:_MAX_SHOWN_PATHS]
    ]
    if len(captured.touched) > _MAX_SHOWN_PATHS:
        names.append(f"and {len(captured.touched) - _MAX_SHOWN_PATHS:,} more")
    return PermissionRequest(
        "changes",
        f"Stage {size}?",
        "\n".join([f"$ {command}", *names]),
        ".",
        (
            "Yes stages all of it as a proposal; no throws it away. Files that git does not ignore stay as they are.",
            f"What is over {format_size(MAX_BYTES)} is shown by its size and decided as a whole; "
            f"what is over {format_size(MAX_CHANGED_FILE_BYTES)} is left out.",
        ),
    )


def _ignored_request(descriptions: Sequence[str], command: str, not_staged: Sequence[str]) -> PermissionRequest:
    return PermissionRequest(
        "ignored",
        f"Write what git ignores? {join_first(descriptions, separator='; ')}",
        "\n".join([f"$ {command}", *descriptions]),
        ".",
        (
            "Yes writes it to your files, where you have not changed them meanwhile; no throws it away.",
            *(f"Not staged: {change}." for change in not_staged[:_MAX_NAMED_PATHS]),
        ),
    )


async def _stage_changes(context: ToolContext, changes: list[PathChange], recipe: CommandRecipe | None) -> EditReport:
    work = asyncio.ensure_future(asyncio.to_thread(context.draft.add_changes, changes, recipe))
    with refusals_as_tool_errors():
        try:
            return await asyncio.shield(work)
        except asyncio.CancelledError:
            # A thread can't be stopped: wait for it, and undo the changes because the user interrupted the call.
            await asyncio.wait({work})
            context.draft.undo_add_changes()
            raise


def read_changes(
    run: ChangesReaderWithIgnoredWriteBack, changes: CommandFileChanges
) -> tuple[list[PathChange], list[str]]:
    """Return the changes with their contents, and lines about those that can't be read."""
    readable: list[PathChange] = []
    left_out: list[str] = []
    bytes_left = MAX_CHANGE_BYTES
    for touched_path in changes.touched:
        if touched_path.size > bytes_left:
            left_out.append(f"{touched_path.path}: all that was changed is over {format_size(MAX_CHANGE_BYTES)}")
            continue
        try:
            change = run.read_change(touched_path.path, MAX_CHANGED_FILE_BYTES)
            bytes_left -= sum(len(leaf.data) for leaf in (change.before, change.after) if leaf)
            readable.append(change)
        except ChangedByCommandAndOtherProgram:
            left_out.append(f"{touched_path.path}: changed on disk by someone else while the command ran")
        except OSError as error:
            left_out.append(f"{touched_path.path}: {(error.strerror or str(error)).lower()}")
    return readable, left_out


def _add_notes(output: ToolOutput, notes: list[str], summary: str) -> ToolOutput:
    text = "\n".join(filter(None, (output.text, *notes)))
    return replace(output, text=text, summary=", ".join(filter(None, (output.summary, summary))))


def format_path_note_for_model(label: str, items: Sequence[str], separator: str = ", ") -> str:
    """Return a line for the model about these paths; empty if there are none."""
    if not items:
        return ""
    return f"[{label}: {escape_unsafe(join_first(items, _MAX_NAMED_PATHS, separator), keep='')}]"


PLATFORM: str = sys.platform

IN_PLACE_NOTE = "[ran directly on the files; staged edits were written there for it; all of that was put back]"
"""Note for the model."""
GIT_NOTE = "[.git can't be written by commands: commits, and all else that git keeps there, are the user's]"
"""Note for the model."""

FOLDER_RENAME_NOTE = "[rename(2) can't move a folder that was there before: mv, which copies, can]"
"""Note for the model: rename(2) of a lower folder fails on overlays that an unprivileged user can mount."""

SOCKETS_NOTE = "[Unix sockets are out of reach for commands here; command_sockets in config.toml opens them]"
"""Note for the model."""
TERMINALS_NOTE = "[there are no pseudo-terminals for commands here]"
"""Note for the model."""

_GIT_REFUSED = re.compile(r"\.git(?:/[^\n]{0,200})?'?: (?:Read-only file system|Permission denied)")
_PERMISSION_DENIED = re.compile(r"[Pp]ermission denied|EACCES")
_TERMINAL_REFUSED = re.compile(
    r"out of pty devices|(?:pty|ptmx|pseudo-?terminal)\b(?:.|\n){0,300}[Pp]ermission denied"
)
_FOLDER_REFUSED = os.strerror(errno.EXDEV)
_IGNORED_WRITTEN_AT_END = "What git ignores is written at its end; Escape throws that away, too."
_ASKED_BEFORE_IGNORED = "You are asked before it writes what git ignores."
_IGNORED_WRITTEN_AT_ONCE = "What git ignores it writes at once, and that is not put back"
_CANNOT_HOLD = 'your setting ignored = "hold" can\'t hold it here'
_NOTHING_OUTSIDE = "Outside the workspace it writes nothing."
_ABSTRACT_SOCKETS = (
    "This kernel (before Linux 6.12) does not keep it from sockets without a path: it can reach an X11 display."
)
_LANDLOCK_WITHOUT_TRUNCATE = 2
"""The version of Landlock that does not restrict truncate(2)."""
_PLAN_MODE_NOTE = "Plan mode: what it changes in the workspace is thrown away."


def notes_before_allowing_command(
    probe: SandboxCapabilities, permissions: ConfiguredCommandAccess, *, plan_mode: bool, hold_ignored: bool = False
) -> tuple[str, ...]:
    """Return what the user should know before allowing a command, the most important first.

    Args:
        probe: How commands run here; not in place in plan mode.
        permissions: Resources that the user's configuration gives commands access to.
        plan_mode: Plan mode: the command's changes are discarded.
        hold_ignored: The user wants to be asked before git-ignored files are written.
    """
    writable_paths = ", ".join(permissions.writable)
    outside_note = (
        f"Outside the workspace it writes {writable_paths}, and nothing else." if writable_paths else _NOTHING_OUTSIDE
    )
    waiting_text = "what it changes will wait as a proposal."
    ignored_note = "" if plan_mode else f" {_ASKED_BEFORE_IGNORED if hold_ignored else _IGNORED_WRITTEN_AT_END}"
    no_layer = f"There is no layer over your files, since {probe.why_not}."
    match probe.mode:
        case CommandWriteMode.OVERLAY:
            notes = ["What it changes in your files will wait as a proposal.", f"{outside_note}{ignored_note}"]
        case CommandWriteMode.IN_PLACE:
            notes = [
                f"This runs directly on your files; they are put back, and {waiting_text}",
                f"{no_layer} While it runs they hold what is staged, and "
                "nothing can be approved. Change nothing then: that would count as the command's.",
                outside_note
                if probe.is_confined
                else "Nothing keeps it from writing outside the workspace, nor from reading signoff's own folders.",
                f"It can read all else that you can, and it uses your network.{_describe_missing_limits(probe)}",
                f"{_IGNORED_WRITTEN_AT_ONCE}{f': {_CANNOT_HOLD}' if hold_ignored else ''}.",
            ]
    if permissions.sockets:
        notes.append(f"By your configuration it reaches {', '.join(permissions.sockets)}.")
        if probe.mode is CommandWriteMode.IN_PLACE:
            notes.append("In place that opens all Unix sockets: it reaches every program that acts for you.")
    if not probe.can_block_abstract_sockets:
        notes.append(_ABSTRACT_SOCKETS)
    return (_PLAN_MODE_NOTE, *notes[1:]) if plan_mode else tuple(notes)


def _describe_missing_limits(probe: SandboxCapabilities) -> str:
    """Return sentences about protections that this platform lacks for a command in place, each after a space."""
    sentences = (
        (
            not probe.filters_syscalls,
            "Nothing keeps it from programs that act for you, or from ending them and signoff.",
        ),
        (
            not (probe.filters_syscalls and probe.is_confined),
            "It can change permissions, owners and times of your files.",
        ),
        (
            probe.landlock == _LANDLOCK_WITHOUT_TRUNCATE,
            "It can cut off your files everywhere (this kernel is before Linux 6.2).",
        ),
        (PLATFORM != "linux", "Its memory and processes have no limit, and what it starts may go on after it."),
    )
    return "".join(f" {sentence}" for applies, sentence in sentences if applies)


def sandbox_failure_notes(output: str, result: "ProcessExit", *, in_place: bool) -> list[str]:
    """Return lines for the model about operations that failed because of the sandbox."""
    notes_by_sign = (
        (_GIT_REFUSED.search(output), GIT_NOTE),
        (_FOLDER_REFUSED in output, FOLDER_RENAME_NOTE),
        (result.code and result.refused_socket and _PERMISSION_DENIED.search(output), SOCKETS_NOTE),
        (result.code and in_place and _TERMINAL_REFUSED.search(output), TERMINALS_NOTE),
    )
    return [note for applies, note in notes_by_sign if applies]


def describe_how_commands_run(probe: SandboxCapabilities) -> str:
    """Return one line that says how commands run here."""
    if probe.refusal:
        return f"do not run: {probe.refusal}"
    match probe.mode:
        case CommandWriteMode.OVERLAY:
            return "run on a layer over the workspace; what they change waits as a proposal"
        case CommandWriteMode.IN_PLACE:
            return f"run directly on your files, and what they change is put back, since {probe.why_not}"
