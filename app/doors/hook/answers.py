"""The answers of the hook: their words for the agent's model, and their JSON for each agent."""

import json
from typing import NamedTuple

from app.doors.hook.agents import agent_of
from app.doors.hook.calls import HookCall


class HookAnswer(NamedTuple):
    """The answer to a call."""

    verdict: str
    """`deny`; `ask` the user; `tell` the agent `words` and allow; or `none`: the agent's own rules decide."""
    words: str = ""
    ends_turn: bool = False
    """Whether the agent should end its turn, if its hook can make it."""
    proposal: str = ""
    """The id of the proposal that it is about."""
    reported: tuple[tuple[str, int], ...] = ()
    """For each proposal in it, the number of the last decision that it reports."""


NONE = HookAnswer("none")


def staged(proposal: str, paths: str) -> HookAnswer:
    """An edit was staged."""
    words = (
        f"{proposal} is staged in signoff and awaits the user's decision: {paths}. It is not an error, and nothing "
        "is written: on disk the files are as before, so reading them does not show it. End your turn now and say in "
        f"a few sentences what {proposal} does and what to look at. Don't call tools, and don't make the change in "
        "another way: every call is refused until the user has decided or writes to you."
    )
    return HookAnswer("deny", words, True, proposal)


def refused(proposal: str) -> HookAnswer:
    """A call after an edit of the same turn was staged."""
    words = (
        f"Refused, and nothing of this call was done: {proposal}, which you staged in this turn, awaits the user's "
        "decision. Nothing of it is written. End your turn now; don't call tools."
    )
    return HookAnswer("deny", words, True, proposal)


def not_staged(why: str) -> HookAnswer:
    """An edit that could not be staged; the agent may make it again."""
    return HookAnswer("deny", f"Nothing was staged and nothing was written: {why}")


def foreign_tool(tool: str, hook: str, title: str, name: str) -> HookAnswer:
    """A call of a tool that the agent of the hook lacks, and with which another agent writes."""
    words = (
        f"Refused, and nothing of this call was done: signoff's hook for {hook} was called, which has no {tool}; "
        f"{title} writes with a tool of that name. Ask the user to run `signoff doors install {name}`."
    )
    return HookAnswer("deny", words)


def command(verdict: str, words: str) -> HookAnswer:
    """The answer to a shell command."""
    return NONE if verdict == "allow" else HookAnswer(verdict, words)


def render_answer(call: HookCall, answer: HookAnswer) -> str:
    """Return the text for standard output: JSON in the agent's form, or nothing."""
    agent = agent_of(call.agent)
    match answer.verdict:
        case "none":
            return ""
        case "tell":
            said = {"hookEventName": call.event, agent.context: answer.words}
            return json.dumps({"hookSpecificOutput": said}) + "\n"
    document: dict[str, object]
    if agent.denial.is_flat:
        document = {"decision": answer.verdict, "reason": answer.words}
    else:
        document = {
            "hookSpecificOutput": {
                "hookEventName": call.event,
                "permissionDecision": answer.verdict,
                "permissionDecisionReason": answer.words,
            }
        }
    if answer.ends_turn and answer.verdict == "deny" and agent.denial.ends_turn:
        # Without the denial beside it this would let the call through; Codex takes the whole answer for invalid.
        document |= {"continue": False, "stopReason": f"{answer.proposal} waits for your decision in signoff."}
    return json.dumps(document) + "\n"
