"""`signoff hook AGENT`: reads a tool call of another agent on standard input, answers, and fails closed.

An edit is staged. After that every call is refused until the user has decided or written a new prompt: this is the
gate for an agent whose requests signoff does not make.

Every denial has exit code 2: agents accept it even if a shell's start-up files have printed to standard output
before. Some agents let the call through if exit code 2 comes without a message. Copilot CLI ignores messages with
that code: there a denial has exit code 0, unless a start-up file may print before it. The launcher runs this in a
child process and enforces the deadline.
"""

import gc
import io
import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout, suppress
from itertools import pairwise
from pathlib import Path
from types import FrameType
from typing import NamedTuple, Protocol

from app.doors.hook import hook_messages
from app.doors.hook.agents import HookOptions, find_agent, find_agent_with_edit_tool, parse_hook_arguments
from app.doors.hook.call_errors import EditNotStaged
from app.doors.hook.hook_messages import (
    AFTER_TOOL_EVENTS,
    AFTER_TURN_EVENTS,
    BEFORE_PROMPT_EVENTS,
    EMPTY_ANSWER,
    SESSION_START_EVENTS,
    HookCall,
    HookCallAnswer,
    parse_call,
    render_answer,
)
from app.doors.hook.turn_files import InMemoryFilesOfOneCall
from app.proposals.values.proposal_errors import TooManyUnreadLinesToStage
from app.storage import StorageError
from app.storage.app_dirs import find_app_dirs
from app.storage.captured_edit_store import (
    CapturedAgentTurn,
    CapturedEditStore,
    CapturedFileEdit,
    EditAlreadyPending,
)
from app.storage.database import Database
from app.storage.process_coordination import DatabaseChangeSignal, DecisionReportClaim
from app.storage.seen_lines_store import SeenLinesStore
from app.text.quantities import join_first
from app.workspace.paths import Workspace

DENIED_EXIT_CODE = 2
_COLLECTION_THRESHOLD = 100_000
"""Allocations before the garbage collector runs: more than the hook makes."""
MAX_CALL_BYTES = 16 * 1024 * 1024
"""Maximum size of a call in bytes; a larger one is denied."""


class HookAnswerChannel(Protocol):
    """The connection to the waiting agent: sends the answer, or lets the agent continue if the hook fails."""

    began: float
    """Start of the hook, by the monotonic clock."""

    def allow_on_failure(self) -> None:
        """Let the agent continue if the hook fails."""

    def answer(self, text: bytes, *, denied: bool = False) -> None:
        """Send the answer; return after the agent has it."""


class HookContext(NamedTuple):
    """The workspace, store and options of one call of the hook."""

    workspace: Workspace
    captured: CapturedEditStore
    options: HookOptions = HookOptions()
    config_file: Path | None = None
    """The user's configuration file, which has the reading budget."""

    @property
    def unread_limit(self) -> int:
        """Return how many lines may be unread before an edit; 0 for no limit. Raises ValueError or OSError."""
        from app.config.toml_files import read_max_unread_lines

        return read_max_unread_lines(self.config_file) if self.config_file is not None else 0


class HookTerminated(BaseException):
    """The hook got SIGTERM, from the agent or the system."""


def run_hook(arguments: Sequence[str], channel: HookAnswerChannel) -> int:
    """Answer one hook call of an agent and return the exit code; never raises."""
    gc.set_threshold(_COLLECTION_THRESHOLD)
    text = b""
    beside_calls = False
    # argparse would ignore that the help cannot be written.
    printed = io.StringIO()
    try:
        signal.signal(signal.SIGTERM, _raise_terminated)
        with redirect_stdout(printed):
            name, workspace, options = parse_hook_arguments(arguments)
        text = sys.stdin.buffer.read(MAX_CALL_BYTES + 1)
        beside_calls = _is_no_tool_call(text)
        if beside_calls:
            # A failure is harmless here. A denial before a prompt would discard the user's prompt, and one after a
            # turn would make the agent continue.
            channel.allow_on_failure()
        if len(text) > MAX_CALL_BYTES:
            _discard_input()
            raise ValueError(
                f"It is larger than {MAX_CALL_BYTES // 1024**2} MiB, and was not read. Make the edit in parts."
            )
        call = parse_call(name, text)
        if call.event in AFTER_TOOL_EVENTS:
            beside_calls = True
            channel.allow_on_failure()
        _answer_call(call, workspace, options, channel)
    except SystemExit as answered:  # by argparse: help, or invalid arguments
        if not answered.code:
            channel.answer(printed.getvalue().encode())
        return DENIED_EXIT_CODE if answered.code else 0
    except BaseException as error:
        if beside_calls:
            return DENIED_EXIT_CODE
        words = " ".join(str(error).split()) or type(error).__name__
        _print_error(f"Denied, and nothing was written: signoff could not stage this call. {words}")
        return DENIED_EXIT_CODE
    return 0


def _print_error(words: str) -> None:
    # Not through sys.stderr, which is None if the stream is closed.
    with suppress(OSError):
        left = f"{words}\n".encode()
        while left:
            left = left[os.write(2, left) :]


def _discard_input() -> None:
    """Read the rest of standard input: an agent may treat a broken pipe as a failure of the hook."""
    with suppress(OSError):
        while os.read(0, MAX_CALL_BYTES):
            pass


def _answer_call(call: HookCall, workspace: str, options: HookOptions, agent: HookAnswerChannel) -> None:
    root = Path(workspace or find_project_root(call))
    where = find_app_dirs()
    database = Database(where.database)
    claim: DecisionReportClaim | None = None
    try:
        opened = Workspace(root, off_limits=where.own_folders)
        signal = DatabaseChangeSignal(where.signals, opened.name)
        door = HookContext(opened, CapturedEditStore(database, opened.name, signal), options, where.config_file)
        until = agent.began + options.wait if options.wait else 0.0
        answer = stage_edit_or_answer_call(door, call)
        while answer.unread and until > time.monotonic():
            from app.doors.agent_decisions import wait_until_lines_are_read

            wait_until_lines_are_read(
                SeenLinesStore(database, opened.name, signal), signal, door.unread_limit, until - time.monotonic()
            )
            answer = stage_edit_or_answer_call(door, call)
        claim = DecisionReportClaim(where.locks, opened.name, call.agent, call.session)
        try:
            answer = _add_decision(door, call, answer, until, claim)
        finally:
            if call.event in BEFORE_PROMPT_EVENTS:
                # Not earlier: stale edits are reported only from closed turns.
                door.captured.reopen_turns_without_prompt_id(call.agent, call.session)
        denied = answer.verdict == "deny"
        denial = find_agent(call.agent).denial
        if denied and denial.on_stderr:
            # With exit code 2 the agent reads the reason only from standard error.
            _print_error(answer.words)
        exits_with_denial = denied and (not denial.hides_words or "BASH_ENV" in os.environ)
        agent.answer(render_answer(call, answer).encode(), denied=exits_with_denial)
        # The agent has the answer; a report that can't be marked now is repeated later.
        with suppress(StorageError):
            for proposal, number in answer.reported:
                door.captured.mark_reported(proposal, number)
    finally:
        if claim is not None:
            claim.release()
        database.close()


def _add_decision(
    door: HookContext, call: HookCall, answer: HookCallAnswer, until: float, claim: DecisionReportClaim
) -> HookCallAnswer:
    """Return the answer, or a decision of the user that was not reported yet or is made during the wait.

    Args:
        until: End of the wait for a decision, by the monotonic clock.
        claim: Is taken before a decision is reported; release it after the report is marked.
    """
    root, agent = door.workspace.root, find_agent(call.agent)
    is_prompt = call.event in BEFORE_PROMPT_EVENTS
    if call.event in AFTER_TURN_EVENTS + AFTER_TOOL_EVENTS + SESSION_START_EVENTS:
        return answer
    if answer.proposal and until > time.monotonic():
        from app.doors.hook.delivery import stage_edits_and_wait_for_decision

        answer = stage_edits_and_wait_for_decision(root, answer, until, claim)

    def read_unreported() -> dict[str, CapturedAgentTurn]:
        # A stale edit is news in the next turn: with its prompt, or with the first call after it.
        turns = door.captured.turns_to_report(call.agent, call.session, None if is_prompt else call.prompt)
        return {turn.proposal: turn for turn in turns if turn.proposal not in dict(answer.reported)}

    how = agent.hears_with_call
    found = read_unreported()
    if not found or not (agent.hears_with_prompt if is_prompt else how or answer.proposal in found):
        return answer
    claim.take()
    turns = read_unreported()
    if is_prompt:
        from app.doors.hook.delivery import make_answer_with_unreported_decisions

        return make_answer_with_unreported_decisions(root, [*turns.values()]) if turns else answer
    if (turn := turns.get(answer.proposal)) is not None and turn.closed:
        from app.doors.hook.delivery import answer_call_with_decision_or_refusal

        return answer_call_with_decision_or_refusal(root, turn, answer, claim)
    reads_first = answer.verdict != "deny" and (how == "denial" or answer.verdict == "ask")
    if (others := found.keys() - turns.keys()) and (reads_first or answer.proposal in others):
        return hook_messages.deny_call_beside_reported_decision(sorted(others))
    if turns and how:
        from app.doors.hook.delivery import add_decisions_to_call_answer

        return add_decisions_to_call_answer(root, [*turns.values()], answer, text_only_in_denial=how == "denial")
    return answer


def find_project_root(call: HookCall) -> str:
    """Return the agent's project: the one in its environment, else the repository, else its working directory."""
    named = os.environ.get(find_agent(call.agent).project_variable, "")
    if named and Path(call.folder).is_relative_to(named):
        return named
    folder = Path(call.folder)
    return str(next((above for above in (folder, *folder.parents) if (above / ".git").exists()), folder))


def _is_no_tool_call(text: bytes) -> bool:
    """Return whether the payload is about a session, a prompt or the end of a turn, not a tool call."""
    events = BEFORE_PROMPT_EVENTS + AFTER_TURN_EVENTS + SESSION_START_EVENTS
    return any(f'"{event}"'.encode() in text[:4096] for event in events) and b'"tool_name"' not in text


def _raise_terminated(number: int, frame: FrameType | None) -> None:
    raise HookTerminated("It was stopped.")


_DECIDING_COMMANDS = frozenset({"approve", "deny", "redo", "review", "stage", "undo"})
"""Subcommands that decide, or that stage edits that the hook would otherwise see."""
_SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "pwsh", "sh", "tcsh", "zsh"})
_WRAPPERS = frozenset({"busybox", "command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "time"})
_CODEX_PATCH_COMMANDS = ("apply_patch", "applypatch")
_OPERATORS = "();<>|&`{}$"
_QUOTE_CHARACTERS = str.maketrans("", "", "\\'\"")
_MAX_QUOTING_DEPTH = 5


def contains_signoff_decision_command(line: str, depth: int = 0) -> bool:
    """Return whether a shell command, or a quoted one in it, has `signoff` before a command that decides."""
    if "signoff" not in line.translate(_QUOTE_CHARACTERS):
        return False
    words = _split_shell_words(line)
    if any(_is_signoff(word) and following in _DECIDING_COMMANDS for word, following in pairwise(words)):
        return True
    return depth < _MAX_QUOTING_DEPTH and any(
        contains_signoff_decision_command(word, depth + 1) for word in words if any(map(str.isspace, word))
    )


def starts_interactive_shell(line: str, depth: int = 0) -> bool:
    """Return whether a command line starts a shell without a script: `bash`, `env sh -i`, `sh -c "exec zsh"`.

    Codex writes to the input of a running command with a tool for which it does not call the hook.
    """
    for words in _simple_commands(_split_shell_words(line)):
        at = next((at for at, word in enumerate(words) if not _may_precede_shell(word)), len(words))
        name, options = "".join(words[at : at + 1]).rpartition("/")[2], words[at + 1 :]
        if name not in _SHELLS:
            continue
        if all(option.startswith("-") for option in options) and not any(map(_ends_without_session, options)):
            return True
        if depth < _MAX_QUOTING_DEPTH and any(_takes_command_text(option) for option in options):
            return any(
                starts_interactive_shell(option, depth + 1) for option in options if not option.startswith("-")
            )
    return False


def _simple_commands(words: list[str]) -> Iterator[list[str]]:
    """Yield the simple commands that read the input of the whole list: not after `|`, and without `<`."""
    command: list[str] = []
    has_input = False
    for word in [*words, ";"]:
        if word and not word.strip(_OPERATORS):
            if "<" in word or ">" in word:
                has_input |= "<" in word
                continue
            if command and not has_input:
                yield command
            command, has_input = [], word in ("|", "|&")
        else:
            command.append(word)


def _may_precede_shell(word: str) -> bool:
    """Return whether a shell may follow: a wrapper, an option of one, or `NAME=value`."""
    return word.rpartition("/")[2] in _WRAPPERS or word.startswith("-") or re.match(r"\w+=", word) is not None


def _ends_without_session(option: str) -> bool:
    return option in ("--version", "--help", "--command") or _takes_command_text(option)


def _takes_command_text(option: str) -> bool:
    """Return whether an option takes a command text: `-c`, `-lc`."""
    return re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option) is not None


def _split_shell_words(line: str) -> list[str]:
    reader = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:
        # An unclosed quote: it is unknown how a shell would read the rest.
        return line.translate(_QUOTE_CHARACTERS).split()


def _is_signoff(word: str) -> bool:
    """Return whether a word runs signoff: `/usr/bin/signoff`, `-msignoff`, `signoff@latest`, `signoff==0.2`."""
    name = word.rpartition("/")[2].removeprefix("-m")
    return name == "signoff" or name.startswith(("signoff@", "signoff=="))


_MAX_NAMED_FILES = 5


def stage_edit_or_answer_call(context: HookContext, call: HookCall) -> HookCallAnswer:
    """Stage the edit of a call, or decide about another call; return the answer to it."""
    if call.event in BEFORE_PROMPT_EVENTS + AFTER_TOOL_EVENTS + SESSION_START_EVENTS:
        _record_reads(context, call)
        return EMPTY_ANSWER
    turn = context.captured.latest_turn(call.agent, call.session, call.prompt)
    if call.event in AFTER_TURN_EVENTS:
        if turn is not None and turn.closed and call.last_message:
            from app.doors.hook.delivery import set_summary_from_last_message

            set_summary_from_last_message(context.workspace.root, turn.proposal, call.last_message)
        return EMPTY_ANSWER
    agent = find_agent(call.agent)
    edit = agent.edits.get(call.tool)
    is_same_response = turn is not None and bool(call.response) and call.response == turn.response
    if turn is not None and (turn.closed or is_same_response) and not (edit and is_same_response):
        # A call in the same response as the edit was made before its answer; let the agent write its last message.
        return (
            hook_messages.deny_call_after_staged_edit(turn.proposal, ends_turn=not is_same_response)
            if turn.closed
            else hook_messages.deny_call_beside_reported_decision([turn.proposal])
        )
    if edit is None:
        answer = _answer_other_call(context, call)
        if answer.verdict in ("none", "ask"):
            _record_reads(context, call)
        return answer
    mine = turn if turn is not None and turn.closed else None
    before = context.captured.captured_files(mine.proposal) if mine else []
    files = InMemoryFilesOfOneCall(context.workspace, call.folder, before)
    try:
        edit(files, call.arguments)
    except EditNotStaged as error:
        return hook_messages.edit_not_staged_answer(str(error))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return hook_messages.edit_not_staged_answer(
            f"signoff does not understand this call of {call.tool} ({error!r})."
        )
    edited = files.edited_files
    if not edited:
        return hook_messages.edit_not_staged_answer("the files have this text already.")
    _record_reads(context, call, [file.path for file in edited])
    proposal = mine.proposal if mine else ""
    staging = CapturedAgentTurn(call.agent, call.session, call.prompt, call.response, call.model, proposal)
    return _stage_edits(context, call, staging, edited, before)


def _record_reads(door: HookContext, call: HookCall, edited: Sequence[str] = ()) -> None:
    """Record the reads of a call, or the attached files among those that it edits."""
    if not find_agent(call.agent).reads:
        return
    from app.doors.hook.hook_reads import find_attached_file_reads, reads_of_call

    reads = find_attached_file_reads(call, edited) if edited else reads_of_call(door.workspace, call)
    if reads:
        door.captured.add_reads(call.agent, call.session, reads)


def _stage_edits(
    door: HookContext,
    call: HookCall,
    staging: CapturedAgentTurn,
    edited: Sequence[CapturedFileEdit],
    before: Sequence[CapturedFileEdit],
) -> HookCallAnswer:
    """Store the edits of a call, on top of the turn's earlier ones, and return the answer."""
    name = staging.proposal
    turn_files = {file.path: file for file in (*before, *edited)}
    if name and all(file.after == file.before for file in turn_files.values()):
        # Its proposal would have no changes, but the agent and perhaps the user know it by its id.
        return hook_messages.edit_not_staged_answer(
            f"it takes back all that {name} changes. {name} waits as it was before this call. End "
            f"your turn and tell the user to deny {name}."
        )
    try:
        name = door.captured.store_edits(staging, edited, before, door.unread_limit)
    except EditAlreadyPending as pending:
        return hook_messages.edit_already_pending_answer(pending.proposal)
    except TooManyUnreadLinesToStage as full:
        return hook_messages.user_reading_budget_refusal(str(full))
    if not name:
        return stage_edit_or_answer_call(door, call)
    return hook_messages.edit_staged_answer(name, join_first([file.path for file in edited], _MAX_NAMED_FILES))


def _answer_other_call(door: HookContext, call: HookCall) -> HookCallAnswer:
    """Return the answer to a call that is not an edit of the hook's agent."""
    agent = find_agent(call.agent)
    if call.tool in agent.shells:
        return _answer_shell_command(door, call)
    other = find_agent_with_edit_tool(call.tool)
    return (
        hook_messages.refuse_tool_of_other_agent(call.tool, agent.title, other.title, other.name)
        if other
        else EMPTY_ANSWER
    )


def _answer_shell_command(door: HookContext, call: HookCall) -> HookCallAnswer:
    given = call.arguments.get("command") or call.arguments.get("cmd") or ""
    line = " ".join(map(str, given)) if isinstance(given, list) else str(given)
    if "*** Begin Patch" in line and any(name in line for name in _CODEX_PATCH_COMMANDS):
        # The hook does not see what a shell writes, but it sees the edits of the tool apply_patch.
        return hook_messages.edit_not_staged_answer("call apply_patch as a tool, not through the shell.")
    if door.options.decisions == "deny" and contains_signoff_decision_command(line):
        return HookCallAnswer(
            "deny",
            "Refused, and nothing of this command was run: it decides in signoff, or stages there, which is the "
            "user's. Tell the user what you would decide, and why. If the command only has such words in it, ask the "
            "user to run it.",
        )
    if door.options.decisions == "deny" and call.agent == "codex" and starts_interactive_shell(line):
        return HookCallAnswer(
            "deny",
            "Refused, and nothing of this command was run: it starts a shell that takes commands from its input, and "
            "signoff can't see what is written there. Run each command by itself.",
        )
    verdict = door.options.commands
    if verdict == "allow":
        return EMPTY_ANSWER
    if call.agent != "claude":
        verdict = "deny"
    return HookCallAnswer(verdict, "signoff does not let this agent run commands here; ask the user to run it.")
