"""What the hook answers, in the words that the agent's model reads and in the form that each agent takes."""

import json
from typing import NamedTuple

from app.doors.hook.calls import HookCall


class HookAnswer(NamedTuple):
    """What is to become of a call."""

    verdict: str
    """`deny`; `ask` the user; `tell` what is in `words` and let it go on; or `none`: the agent's own rules decide."""
    words: str = ""
    ends_turn: bool = False
    """Whether the agent is to stop now, where it can be made to."""
    proposal: str = ""
    """The one that it is about."""
    reported: tuple[tuple[str, int], ...] = ()
    """The decisions that it tells of: of each proposal the number of the last."""


NONE = HookAnswer("none")


def staged(proposal: str, paths: str) -> HookAnswer:
    """An edit was taken."""
    words = (
        f"{proposal} is staged in signoff and awaits the user's decision: {paths}. It is not an error, and nothing "
        "is written: on disk the files are as before, so reading them does not show it. End your turn now and say in "
        f"a few sentences what {proposal} does and what to look at. Don't call tools, and don't make the change in "
        "another way: every call is refused until the user has decided or writes to you."
    )
    return HookAnswer("deny", words, True, proposal)


def refused(proposal: str) -> HookAnswer:
    """A call of a turn in which something was staged before."""
    words = (
        f"Refused, and nothing of this call was done: {proposal}, which you staged in this turn, awaits the user's "
        "decision. Nothing of it is written. End your turn now; don't call tools."
    )
    return HookAnswer("deny", words, True, proposal)


def not_staged(why: str) -> HookAnswer:
    """An edit that could not be taken; the agent may make it again."""
    return HookAnswer("deny", f"Nothing was staged and nothing was written: {why}")


def command(verdict: str, words: str) -> HookAnswer:
    """What is to become of a command of the shell."""
    return NONE if verdict == "allow" else HookAnswer(verdict, words)


def render_answer(call: HookCall, answer: HookAnswer) -> str:
    """What goes to standard output."""
    match answer.verdict:
        case "none":
            return ""
        case "tell":
            said = {"hookEventName": call.event, "additionalContext": answer.words}
            return json.dumps({"hookSpecificOutput": said}) + "\n"
    document: dict[str, object]
    if call.agent == "gemini":
        document = {"decision": answer.verdict, "reason": answer.words}
    else:
        document = {
            "hookSpecificOutput": {
                "hookEventName": call.event,
                "permissionDecision": answer.verdict,
                "permissionDecisionReason": answer.words,
            }
        }
    if answer.ends_turn and answer.verdict == "deny" and call.agent != "codex":
        # Without the denial beside it this would let the call through; Codex takes the whole answer for invalid.
        document |= {"continue": False, "stopReason": f"{answer.proposal} waits for your decision in signoff."}
    return json.dumps(document) + "\n"
