"""Decides on a tool call of another agent: stages an edit, refuses all calls after it, reports the decision.

The gate on an agent whose requests signoff does not make: what it calls is refused, whatever its model wants, from
the first edit of a turn until the user has decided on it or has written something new.
"""

from typing import NamedTuple

from app.doors.agents import agent_of, agent_with_tool
from app.doors.hook import answers
from app.doors.hook.answers import NONE, HookAnswer
from app.doors.hook.calls import BEFORE_PROMPT, HookCall
from app.doors.hook.deciding_commands import decides, opens_shell
from app.doors.hook.errors import NotStaged
from app.doors.hook.files import TurnFiles
from app.doors.hook.options import HookOptions
from app.storage.captured import CapturedEdits, Turn
from app.workspace.paths import Workspace

_SHOWN = 5


class Door(NamedTuple):
    """The workspace, store and options of one call of the hook."""

    workspace: Workspace
    captured: CapturedEdits
    options: HookOptions = HookOptions()


def decide(door: Door, call: HookCall) -> HookAnswer:
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
    staging = Turn(call.agent, call.session, call.prompt, call.response, call.model, proposal)
    name = door.captured.capture(staging, edited, before)
    if not name:
        return decide(door, call)
    paths = ", ".join(file.path for file in edited[:_SHOWN])
    return answers.staged(name, paths if len(edited) <= _SHOWN else f"{paths} and {len(edited) - _SHOWN} more")


def _other_call(door: Door, call: HookCall) -> HookAnswer:
    """The answer to a call that is no edit of the agent whose hook was called."""
    agent = agent_of(call.agent)
    if call.tool in agent.shells:
        return _command(door, call)
    other = agent_with_tool(call.tool)
    return answers.foreign_tool(call.tool, agent.title, other.title, other.name) if other else NONE


def _command(door: Door, call: HookCall) -> HookAnswer:
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
