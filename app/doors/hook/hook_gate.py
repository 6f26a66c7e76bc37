"""Decides on a tool call of another agent: stages an edit, refuses all calls after it, reports the decision.

The gate on an agent whose requests signoff does not make: what it calls is refused, whatever its model wants, from
the first edit of a turn until the user has decided on it or has written something new.
"""

import re
import shlex
from collections.abc import Iterator
from itertools import pairwise
from typing import NamedTuple

from app.doors.hook import answers
from app.doors.hook.agents import agent_of, agent_with_tool
from app.doors.hook.answers import NONE, HookAnswer
from app.doors.hook.calls import BEFORE_PROMPT, HookCall
from app.doors.hook.errors import NotStaged
from app.doors.hook.files import TurnFiles
from app.doors.hook.options import HookOptions
from app.storage.captured_edit_store import AgentTurn, CapturedEdits
from app.workspace.paths import Workspace

DECIDING = frozenset({"approve", "deny", "redo", "review", "stage", "undo"})
"""Commands of signoff that decide, or that stage what the hook would have seen."""
_SHELLS = frozenset({"ash", "bash", "csh", "dash", "fish", "ksh", "mksh", "pwsh", "sh", "tcsh", "zsh"})
_WRAPPERS = frozenset({"busybox", "command", "env", "exec", "nice", "nohup", "setsid", "stdbuf", "sudo", "time"})
_OPERATORS = "();<>|&`{}$"
_QUOTES = str.maketrans("", "", "\\'\"")
_MAX_DEPTH = 5


def decides(line: str, depth: int = 0) -> bool:
    """Whether a command line, or one quoted in it, has `signoff` before a word that decides."""
    if "signoff" not in line.translate(_QUOTES):
        return False
    words = _words(line)
    if any(_is_signoff(word) and following in DECIDING for word, following in pairwise(words)):
        return True
    return depth < _MAX_DEPTH and any(decides(word, depth + 1) for word in words if any(map(str.isspace, word)))


def opens_shell(line: str, depth: int = 0) -> bool:
    """Whether a command line starts a shell without a script: `bash`, `env sh -i`, `sh -c "exec zsh"`.

    Codex writes to the input of a running command by a tool for which it does not call the hook.
    """
    for words in _simple_commands(_words(line)):
        at = next((at for at, word in enumerate(words) if not _is_prefix(word)), len(words))
        name, options = "".join(words[at : at + 1]).rpartition("/")[2], words[at + 1 :]
        if name not in _SHELLS:
            continue
        if all(option.startswith("-") for option in options) and not any(map(_has_no_session, options)):
            return True
        if depth < _MAX_DEPTH and any(_runs_text(option) for option in options):
            return any(opens_shell(option, depth + 1) for option in options if not option.startswith("-"))
    return False


def _simple_commands(words: list[str]) -> Iterator[list[str]]:
    """The commands of a list whose input is that of the whole: after no `|`, and without `<`."""
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


def _is_prefix(word: str) -> bool:
    """Whether a shell may follow: a wrapper, an option of one, or `NAME=value`."""
    return word.rpartition("/")[2] in _WRAPPERS or word.startswith("-") or re.match(r"\w+=", word) is not None


def _has_no_session(option: str) -> bool:
    return option in ("--version", "--help", "--command") or _runs_text(option)


def _runs_text(option: str) -> bool:
    """`-c`, `-lc`."""
    return re.fullmatch(r"-[A-Za-z]*c[A-Za-z]*", option) is not None


def _words(line: str) -> list[str]:
    reader = shlex.shlex(line.replace("\\\n", " "), posix=True, punctuation_chars=_OPERATORS)
    reader.whitespace_split = True
    reader.commenters = ""
    try:
        return list(reader)
    except ValueError:
        # An unclosed quote: how a shell would read the rest is unknown.
        return line.translate(_QUOTES).split()


def _is_signoff(word: str) -> bool:
    """Also `/usr/bin/signoff`, `-msignoff`, `signoff@latest` and `signoff==0.2`."""
    name = word.rpartition("/")[2].removeprefix("-m")
    return name == "signoff" or name.startswith(("signoff@", "signoff=="))


_SHOWN = 5


class HookDoor(NamedTuple):
    """The workspace, store and options of one call of the hook."""

    workspace: Workspace
    captured: CapturedEdits
    options: HookOptions = HookOptions()


def decide(door: HookDoor, call: HookCall) -> HookAnswer:
    """Return the answer to a call; an edit is in the store when this returns."""
    if call.event in BEFORE_PROMPT:
        door.captured.open_unnamed(call.agent, call.session)
        return NONE
    turn = door.captured.turn(call.agent, call.session, call.prompt)
    agent = agent_of(call.agent)
    edit = agent.edits.get(call.tool)
    closed = turn is not None and turn.closed
    if turn is not None and closed and not (edit and call.response and call.response == turn.response):
        return answers.refused(turn.proposal)
    if edit is None:
        return _other_call(door, call)
    mine = turn if turn is not None and closed else None
    before = door.captured.files(mine.proposal) if mine else []
    files = TurnFiles(door.workspace, call.folder, before)
    try:
        edit(files, call.arguments)
    except NotStaged as error:
        return answers.not_staged(str(error))
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        return answers.not_staged(f"signoff does not understand this call of {call.tool} ({error!r}).")
    edited = files.edited
    if not edited:
        return answers.not_staged("the files have this text already.")
    proposal = mine.proposal if mine else ""
    staging = AgentTurn(call.agent, call.session, call.prompt, call.response, call.model, proposal)
    name = door.captured.capture(staging, edited, before)
    if not name:
        return decide(door, call)
    paths = ", ".join(file.path for file in edited[:_SHOWN])
    return answers.staged(name, paths if len(edited) <= _SHOWN else f"{paths} and {len(edited) - _SHOWN} more")


def _other_call(door: HookDoor, call: HookCall) -> HookAnswer:
    """The answer to a call that is no edit of the agent whose hook was called."""
    agent = agent_of(call.agent)
    if call.tool in agent.shells:
        return _command(door, call)
    other = agent_with_tool(call.tool)
    return answers.foreign_tool(call.tool, agent.title, other.title, other.name) if other else NONE


def _command(door: HookDoor, call: HookCall) -> HookAnswer:
    given = call.arguments.get("command") or call.arguments.get("cmd") or ""
    line = " ".join(map(str, given)) if isinstance(given, list) else str(given)
    if "*** Begin Patch" in line and "apply_patch" in line:
        # What a shell writes is not seen here; this edit has a tool of its own, which is.
        return answers.not_staged("call apply_patch as a tool, not through the shell.")
    if door.options.decisions == "deny" and decides(line):
        return answers.command(
            "deny",
            "Refused, and nothing of this command was run: it decides in signoff, or stages there, which is the "
            "user's. Tell the user what you would decide, and why. If the command only has such words in it, ask the "
            "user to run it.",
        )
    if door.options.decisions == "deny" and call.agent == "codex" and opens_shell(line):
        return answers.command(
            "deny",
            "Refused, and nothing of this command was run: it starts a shell that takes commands from its input, and "
            "signoff can't see what is written there. Run each command by itself.",
        )
    verdict = door.options.commands
    if verdict == "ask" and call.agent != "claude":
        verdict = "deny"
    return answers.command(verdict, "signoff does not let this agent run commands here; ask the user to run it.")
