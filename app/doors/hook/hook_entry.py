"""`signoff hook AGENT`: reads a call on standard input, answers, and fails closed.

A denial, whatever its reason, has exit code 2: agents take that for a denial whatever else is on standard output,
where the start-up files of a shell may have written before. Some let the call through if exit code 2 comes without a
word. Copilot CLI reads no words beside that code: there a denial has exit code 0, unless a start-up file may write
before it. The launcher runs this in a child process and keeps the deadline.
"""

import gc
import os
import signal
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path
from types import FrameType
from typing import Protocol

from app.doors.hook.agents import agent_of
from app.doors.hook.answers import HookAnswer, render_answer
from app.doors.hook.calls import BEFORE_PROMPT, HookCall, parse_call
from app.doors.hook.hook_gate import HookDoor, decide
from app.doors.hook.options import HookOptions, hook_options
from app.storage.app_dirs import places
from app.storage.captured_edit_store import CapturedEdits
from app.storage.change_signals import ChangeSignal
from app.storage.database import Database
from app.storage.storage_errors import StorageError
from app.workspace.paths import Workspace

DENIED = 2
_SELDOM = 100_000
"""Allocations before the garbage collector runs: the hook ends sooner."""
LARGEST = 16 * 1024 * 1024
"""Bytes of a call that are read; a larger one is denied."""


class AgentChannel(Protocol):
    """The waiting agent: `app.launcher.deadline.AgentPipes`."""

    began: float
    """When the hook was started, by the monotonic clock."""

    def needs_no_denial(self) -> None:
        """Say that the agent is to go on if the hook fails."""

    def answer(self, text: bytes, *, denied: bool = False) -> None:
        """Give the answer; the agent has it when this returns."""


class HookStopped(BaseException):
    """The hook got SIGTERM, from the agent or the system."""


class InputTooLarge(Exception):
    """Standard input is larger than `LARGEST`."""


def hook(arguments: Sequence[str], agent: AgentChannel) -> int:
    """Answer one call and return the exit code; never raises."""
    gc.set_threshold(_SELDOM)
    text = b""
    try:
        signal.signal(signal.SIGTERM, _stop)
        name, workspace, options = hook_options(arguments)
        text = sys.stdin.buffer.read(LARGEST + 1)
        if _of_prompt(text):
            # Nothing is at stake before a prompt, and to fail there would take the user's words away.
            agent.needs_no_denial()
        if len(text) > LARGEST:
            _pass_over_the_rest()
            raise InputTooLarge(
                f"It is larger than {LARGEST // 1024**2} MiB, and was not read. Make the edit in parts."
            )
        call = parse_call(name, text)
        _answer_call(call, workspace, options, agent)
    except SystemExit as answered:  # by argparse: help, or what is wrong with the words
        if not answered.code:
            agent.answer(b"")
        return DENIED if answered.code else 0
    except BaseException as error:
        if _of_prompt(text):
            return DENIED
        words = " ".join(str(error).split()) or type(error).__name__
        _print_error(f"Denied, and nothing was written: signoff could not stage this call. {words}")
        return DENIED
    return 0


def _print_error(words: str) -> None:
    # Not through sys.stderr, which is None where the stream is closed.
    with suppress(OSError):
        left = f"{words}\n".encode()
        while left:
            left = left[os.write(2, left) :]


def _pass_over_the_rest() -> None:
    """Read the rest of standard input: an agent may count a broken pipe as a failure of the hook."""
    with suppress(OSError):
        while os.read(0, LARGEST):
            pass


def _answer_call(call: HookCall, workspace: str, options: HookOptions, agent: AgentChannel) -> None:
    root = Path(workspace or root_of(call))
    where = places()
    database = Database(where.database)
    try:
        opened = Workspace(root, off_limits=(where.state, where.config))
        name = str(opened.root).encode("utf-8", "backslashreplace").decode("utf-8")
        door = HookDoor(opened, CapturedEdits(database, name, ChangeSignal(where.signals, name)), options)
        answer = _with_decision(door, call, decide(door, call), agent.began + options.wait if options.wait else 0.0)
        denied = answer.verdict == "deny"
        denial = agent_of(call.agent).denial
        if denied and denial.on_stderr:
            # Beside exit code 2 it reads the reason only there.
            _print_error(answer.words)
        exits_with_denial = denied and (not denial.hides_words or "BASH_ENV" in os.environ)
        agent.answer(render_answer(call, answer).encode(), denied=exits_with_denial)
        # The agent has the answer; a report that can't be noted now is repeated later.
        with suppress(StorageError):
            for proposal, number in answer.reported:
                door.captured.tell(proposal, number)
    finally:
        database.close()


def _with_decision(door: HookDoor, call: HookCall, answer: HookAnswer, until: float) -> HookAnswer:
    """The answer, or instead the user's decision: one not yet reported, or one made during the wait."""
    root = door.workspace.root
    turns = door.captured.untold(call.agent, call.session)
    if call.event in BEFORE_PROMPT:
        if not turns or not agent_of(call.agent).hears_with_prompt:
            return answer
        from app.doors.hook.delivery import deliver_with_prompt

        return deliver_with_prompt(root, turns)
    if turn := next((turn for turn in turns if turn.closed and turn.proposal == answer.proposal), None):
        from app.doors.hook.delivery import deliver_on_first_call

        return deliver_on_first_call(root, turn, answer)
    if turns and (how := agent_of(call.agent).hears_with_call):
        from app.doors.hook.delivery import deliver_with_call

        answer = deliver_with_call(root, turns, answer, denies=how == "denial")
    if answer.proposal and until > time.monotonic():
        from app.doors.hook.delivery import deliver_after_wait

        return deliver_after_wait(root, answer, until)
    return answer


def root_of(call: HookCall) -> str:
    """The agent's project: the one in its environment, else the repository, else its folder."""
    named = os.environ.get(agent_of(call.agent).project_variable, "")
    if named and Path(call.folder).is_relative_to(named):
        return named
    folder = Path(call.folder)
    return str(next((each for each in (folder, *folder.parents) if (each / ".git").exists()), folder))


def _of_prompt(text: bytes) -> bool:
    return any(f'"{event}"'.encode() in text[:4096] for event in BEFORE_PROMPT) and b'"tool_name"' not in text


def _stop(number: int, frame: FrameType | None) -> None:
    raise HookStopped("It was stopped.")
