"""Messages between an agent and the hook: the payload of a call, in one form for all agents, and the answer."""

import json
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from app.doors.hook.agents import find_agent
from app.doors.hook.transcripts import (
    ResponseAndPromptIds,
    find_claude_prompt_of_user,
    find_running_kimi_response,
    wait_for_call_in_copilot_log,
)
from app.text.quantities import join_with_and

BEFORE_TOOL_EVENTS = ("PreToolUse", "BeforeTool")
BEFORE_PROMPT_EVENTS = ("UserPromptSubmit", "BeforeAgent")
AFTER_TURN_EVENTS = ("Stop", "AfterAgent")
AFTER_TOOL_EVENTS = ("PostToolUse", "AfterTool")
SESSION_START_EVENTS = ("SessionStart",)
_EVENTS = BEFORE_TOOL_EVENTS + AFTER_TOOL_EVENTS + BEFORE_PROMPT_EVENTS + AFTER_TURN_EVENTS + SESSION_START_EVENTS
_MAX_NAME_CHARACTERS = 200
"""Maximum characters of an id or a name."""
_MAX_MESSAGE_CHARACTERS = 500
"""Maximum characters of the agent's last message."""


class HookCall(NamedTuple):
    """One call of the hook by an agent: the event, the tool with its arguments, and ids of session and turn."""

    agent: str
    """The short name of the agent that sent it; an agent may also run hooks that were installed for another one."""
    event: str
    """The agent's name of the event: `PreToolUse`."""
    session: str
    prompt: str
    """The agent's id of the prompt or turn."""
    response: str
    """The id of the model response that contains the call; empty if unknown."""
    model: str
    folder: str
    """The agent's working directory; absolute."""
    tool: str
    arguments: Mapping[str, Any]
    last_message: str = ""
    """The agent's last message, on one line; only after a turn."""
    transcript: str = ""
    """Path of the session's transcript; empty if the agent has none."""
    prompt_text: str = ""
    """The user's prompt; only before a prompt."""
    result: object = None
    """The result of a tool; only after a call."""
    source: str = ""
    """How the session was started: `startup`, `clear`, `resume`, `compact`; only at its start."""


def parse_call(agent: str, payload: str | bytes) -> HookCall:
    """Parse the payload from standard input.

    Args:
        agent: The agent for which the hook was installed.

    Raises:
        ValueError: It is not a payload of a known agent.
    """
    try:
        # Half of a surrogate pair becomes U+FFFD, as when an agent writes it to a file.
        text = json.dumps(json.loads(payload), ensure_ascii=False).encode("utf-16", "surrogatepass")
        data = json.loads(text.decode("utf-16", "replace"))
    except (ValueError, RecursionError):
        data = None
    if not isinstance(data, dict):
        raise ValueError("Its input is not a JSON object; an agent runs this command with a call as input.")
    event = _short_text(data, "hook_event_name")
    # Calls of Copilot CLI's subagents belong to the turn of the session that started them.
    session = _short_text(data, "parent_agent_id") or _short_text(data, "session_id")
    if event not in _EVENTS:
        raise ValueError(
            f"It is for {event or 'no event'}; signoff is called before a tool or a prompt, after a search or a "
            "turn, and where a session starts."
        )
    tool = _short_text(data, "tool_name")
    if not session or (event in BEFORE_TOOL_EVENTS and not tool):
        raise ValueError(f"It names no {'tool' if session else 'session'}.")
    agent = _detect_agent(agent, data)
    arguments = data.get("tool_input", {})
    if agent == "copilot" and isinstance(arguments, str):
        arguments = {"input": arguments}
    if not isinstance(arguments, dict):
        raise ValueError("Its tool_input is not an object.")
    path, called = str(data.get("transcript_path") or ""), _short_text(data, "tool_use_id")
    response = ResponseAndPromptIds(_short_text(data, "response_id"))
    if event in AFTER_TURN_EVENTS:
        response = find_agent(agent).response(path, called)
    elif event in BEFORE_TOOL_EVENTS and not response.id:
        match agent:
            case "copilot":
                response = wait_for_call_in_copilot_log(session, _short_text(data, "timestamp"))
            case "kimi":
                response = find_running_kimi_response(session)
            case _:
                response = find_agent(agent).response(path, called)
    prompt = _short_text(data, "prompt_id") or _short_text(data, "turn_id") or response.prompt
    prompt = find_claude_prompt_of_user(path, prompt) if agent == "claude" else prompt
    model = _short_text(data, "model") or response.model
    folder = str(data.get("cwd") or "")
    if not folder.startswith("/"):
        raise ValueError("It does not say where the agent works.")
    words = data.get("last_assistant_message") or data.get("prompt_response")
    last_words = _shorten_words(words) if event in AFTER_TURN_EVENTS and isinstance(words, str) else ""
    call = HookCall(agent, event, session, prompt, response.id, model, folder, tool, arguments, last_words, path)
    typed = data.get("prompt")
    return call._replace(
        prompt_text=typed if event in BEFORE_PROMPT_EVENTS and isinstance(typed, str) else "",
        result=data.get("tool_response"),
        source=_short_text(data, "source"),
    )


def _shorten_words(words: str) -> str:
    """Return the beginning of a text on one line."""
    line = " ".join(words[: 2 * _MAX_MESSAGE_CHARACTERS].split())
    return line if len(line) <= _MAX_MESSAGE_CHARACTERS else f"{line[: _MAX_MESSAGE_CHARACTERS - 1]}…"


def _detect_agent(agent: str, data: Mapping[str, Any]) -> str:
    """Return the agent that sent a payload, by its fields: several agents also run Claude Code's hooks."""
    if _short_text(data, "client_type").startswith("kimi"):
        return "kimi"
    if _short_text(data, "hook_event_name") in ("PreToolUse", "UserPromptSubmit") and "timestamp" in data:
        return "qwen" if "transcript_path" in data else "copilot"
    return agent


def _short_text(data: Mapping[str, Any], key: str) -> str:
    value = data.get(key)
    return value[:_MAX_NAME_CHARACTERS] if isinstance(value, str) else ""


class HookCallAnswer(NamedTuple):
    """The hook's answer to a call: deny, ask the user, tell the agent something, or none; with its words."""

    verdict: str
    """`deny`; `ask` the user; `tell` the agent `words` and allow; or `none`: the agent's own rules decide."""
    words: str = ""
    ends_turn: bool = False
    """Whether the agent should end its turn, if its hook can make it."""
    proposal: str = ""
    """The id of the proposal that the answer is about."""
    unread: bool = False
    """Whether the reading budget refused the edit; it may be tried again after the user has read more."""
    reported: tuple[tuple[str, int], ...] = ()
    """For each reported proposal, the number of the last decision in the answer."""


EMPTY_ANSWER = HookCallAnswer("none")


def edit_staged_answer(proposal: str, paths: str) -> HookCallAnswer:
    """Return the answer to an edit that was staged."""
    words = (
        f"{proposal} is staged in signoff and awaits the user's decision: {paths}. It is not an error, and nothing "
        "is written: on disk the files are as before, so reading them does not show it. End your turn now and say in "
        f"a few sentences what {proposal} does and what to look at. Don't call tools, and don't make the change in "
        "another way: every call is refused until the user has decided or writes to you."
    )
    return HookCallAnswer("deny", words, proposal=proposal)


def deny_call_after_staged_edit(proposal: str, *, ends_turn: bool) -> HookCallAnswer:
    """Return the denial of a call that follows a staged edit in the same turn."""
    words = (
        f"Refused, and nothing of this call was done: {proposal}, which you staged in this turn, awaits the user's "
        "decision. Nothing of it is written. End your turn now; don't call tools."
    )
    return HookCallAnswer("deny", words, ends_turn, proposal)


def deny_call_beside_reported_decision(proposals: Sequence[str]) -> HookCallAnswer:
    """Return the denial of a call that was made at the same time as the one whose answer has the decision."""
    words = (
        f"Refused, and nothing of this call was done: the user has decided on {join_with_and(proposals)}, and the "
        "answer to another of the calls that you made at the same time says how. Read it first; make this call again "
        "if it fits."
    )
    return HookCallAnswer("deny", words)


def user_reading_budget_refusal(why: str) -> HookCallAnswer:
    """Return the answer to an edit that exceeds the user's reading budget."""
    words = (
        f"Refused, and nothing of this call was staged or written. {why} Don't make the change in another way: end "
        "your turn and say in a few sentences what you would change next, or try again once the user has read."
    )
    return HookCallAnswer("deny", words, True, unread=True)


def edit_not_staged_answer(why: str) -> HookCallAnswer:
    """Return the answer to an edit that could not be staged; the agent may try it again."""
    return HookCallAnswer("deny", f"Nothing was staged and nothing was written: {why}")


def edit_already_pending_answer(proposal: str) -> HookCallAnswer:
    """Return the answer to an edit that another proposal makes already."""
    return edit_not_staged_answer(
        f"{proposal} makes this edit already and awaits the user's decision. "
        f"End your turn and tell the user that {proposal} is what you would change."
    )


def refuse_tool_of_other_agent(tool: str, hook_agent: str, tool_owner_title: str, tool_owner: str) -> HookCallAnswer:
    """Return the answer to a call of a tool that only another agent than the hook's has."""
    words = (
        f"Refused, and nothing of this call was done: signoff's hook for {hook_agent} was called, "
        f"which has no {tool}; {tool_owner_title} writes with a tool of that name. "
        f"Ask the user to run `signoff doors install {tool_owner}`."
    )
    return HookCallAnswer("deny", words)


def render_answer(call: HookCall, answer: HookCallAnswer) -> str:
    """Return the text for standard output: JSON in the agent's form, or an empty text."""
    agent = find_agent(call.agent)
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
        # Without the denial, this would let the call through. Codex rejects the whole answer as invalid.
        waits = f"{answer.proposal} waits for your decision" if answer.proposal else "Much waits for you to read"
        document |= {"continue": False, "stopReason": f"{waits} in signoff."}
    return json.dumps(document) + "\n"
