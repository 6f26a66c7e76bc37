"""The demo model: rules that answer a chat request from the conversation in it, and nothing else.

It is badly behaved on purpose. Once an edit of its own is staged it goes on editing for as long as `tool_choice`
lets it call tools; only `"none"` makes it stop, and then it does as the system message says. So whoever runs the
demo sees the gate at work.
"""

import re
from collections.abc import Callable, Collection
from typing import Any

from app.demo import editing_skills, reading_skills
from app.demo.history import History, Turn, is_decision, read_history
from app.demo.intents import Kind, read_intent
from app.demo.proposing import ask_for_another_way
from app.demo.reply import NewCall, Reply, quoted
from app.demo.requests import ChatRequest, forced_function, functions
from app.demo.task import Task, current_task

_SKILLS: dict[Kind, Callable[[Task], Reply]] = {
    Kind.HELP: reading_skills.say_help,
    Kind.CONTINUE: reading_skills.say_help,
    Kind.THANKS: reading_skills.say_thanks,
    Kind.RENAME: editing_skills.rename,
    Kind.MOVE: editing_skills.move,
    Kind.DELETE: editing_skills.delete,
    Kind.DOCSTRINGS: editing_skills.add_docstrings,
    Kind.RUN_TESTS: reading_skills.run_tests,
    Kind.FIX: editing_skills.fix,
    Kind.VAGUE: reading_skills.ask,
    Kind.EXPLAIN: reading_skills.explain,
    Kind.SEARCH: reading_skills.search,
}
_SUMMARISE = re.compile(r"^Summari[sz]e\b.*\bconversation\b", re.IGNORECASE)
_NOTES_FILE = "SUMMARY_OF_CHANGES.md"
"""What the model writes, unasked, when nobody stops it."""
_HOW_TO_DECIDE = (
    "Press F3 and read the diff; there `y` approves it, `n` denies it, and `r` tells me what to do differently."
)


def respond(request: ChatRequest) -> Reply:
    """The next response to `request`, which has passed its checks."""
    history = read_history(request)
    offered = functions(request)
    if request.get("tool_choice") == "none" or not offered:
        return Reply(_text_only(history))
    if name := _demanded(request, offered, history.current):
        return Reply("", (NewCall(name, _made_up(offered[name])),))
    if history.current.staged:
        return _edit_on(history.current, offered)
    reply = _next_step(history)
    if missing := [call.name for call in reply.calls if call.name not in offered]:
        return Reply(f"For that I need the tool `{missing[0]}`, which I was not given.")
    return reply


def _next_step(history: History) -> Reply:
    """What to do next where tools may be called."""
    task = current_task(history)
    turn = history.current
    if failed := [call for call in turn.edits if not call.staged]:
        return Reply(f"My edit was not taken:\n\n{quoted(failed[-1].result)}\n\nI stop here.")
    if task.intent.kind is Kind.SUMMARY:
        return Reply(_summary(history))
    if turn.told_to_ask and not turn.answers:
        return ask_for_another_way(task)
    if reply := _said_after(task):
        return reply
    return _SKILLS[task.intent.kind](task)


def _said_after(task: Task) -> Reply | None:
    """The answer where the turn only goes on from an earlier one, and nothing is left to do; else None."""
    turn, earlier = task.turn, task.thread[:-1]
    if not earlier or turn.steps or turn.denied:
        return None
    if turn.approved:
        return Reply(_wrapped_up(task))
    if earlier[-1].staged:
        return Reply(f"I have proposed what I had in mind. {_HOW_TO_DECIDE}")
    if earlier[-1].unfinished:
        return None
    return Reply("That was all that I had to say. Ask me for *help* to see what else there is.")


def _wrapped_up(task: Task) -> str:
    last = next((turn for turn in reversed(task.thread) if turn.staged), task.turn)
    edits = [call for call in last.edits if call.staged]
    lines = [f"- `{edit.arguments.get('path')}`: {edit.arguments.get('summary') or edit.name}" for edit in edits]
    names = ", ".join(f"**{name}**" for name in task.turn.decided_proposals) or "The proposal"
    done = "\n".join(dict.fromkeys(lines))
    told = f"{names} is in, and that is all I had planned.\n\n{done}".rstrip()
    return f"{told}\n\nWant to be sure? Ask me to *run the tests*."


def _edit_on(turn: Turn, offered: Collection[str]) -> Reply:
    """Bad habit: polish, although the proposal awaits its decision."""
    rounds = sum(call.name == "write_file" and call.arguments.get("path") == _NOTES_FILE for call in turn.edits)
    files = dict.fromkeys(str(call.arguments.get("path")) for call in turn.edits)
    lines = ["# Summary of changes", "", *(f"- `{path}`" for path in files if path != _NOTES_FILE)]
    lines += [f"- polished, round {number}" for number in range(1, rounds + 2)]
    content = "\n".join([*lines, ""])
    if "write_file" not in offered:
        return Reply(_handed_back(turn))
    arguments = {"path": _NOTES_FILE, "content": content, "summary": "Sum the changes up"}
    return Reply("While I am at it, I polish this a little more.", (NewCall("write_file", arguments),))


def _text_only(history: History) -> str:
    """The answer where no tool may be called."""
    turn = history.current
    if any(_SUMMARISE.search(note) for note in (turn.notes + turn.later_notes)[-1:]):
        return _summary(history)
    if turn.staged:
        return _handed_back(turn)
    reply = _next_step(history)
    if not reply.calls:
        return reply.text
    names = ", ".join(f"`{name}`" for name in dict.fromkeys(call.name for call in reply.calls))
    return f"To go on I would have to call {names}, and no tools may be called now. Say *continue* and I do."


def _handed_back(turn: Turn) -> str:
    """A short summary of the staged edits that names the proposals and gives control back."""
    staged = [call for call in turn.edits if call.staged]
    names = [f"**{name}**" for name in turn.staged_proposals] or ["My proposal"]
    paths = dict.fromkeys(str(call.arguments["path"]) for call in staged if call.arguments.get("path"))
    files = [f"`{path}`" for path in paths] or ["what the diff shows"]
    summary = next((str(call.arguments["summary"]) for call in staged if call.arguments.get("summary")), "")
    verbs = ("is staged and waits", "It changes") if len(names) == 1 else ("are staged and wait", "They change")
    about = f" {summary}." if summary else ""
    return (
        f"{_listed(names)} {verbs[0]} for you:{about} {verbs[1]} {_listed(files)}; nothing is written yet.\n\n"
        f"{_HOW_TO_DECIDE}"
    )


def _listed(names: list[str]) -> str:
    return names[0] if len(names) == 1 else ", ".join(names[:-1]) + " and " + names[-1]


def _summary(history: History) -> str:
    """What has been said and done, for the user or for a client that makes room in its context."""
    asked = [turn.text for turn in history.turns if turn.text and read_intent(turn.text).kind is not Kind.SUMMARY]
    calls = [call for turn in history.turns for call in turn.calls]
    read = dict.fromkeys(str(call.arguments.get("path")) for call in calls if call.name == "read_file")
    edited = dict.fromkeys(str(call.arguments.get("path")) for call in calls if call.staged)
    decided = [note for turn in history.turns for note in turn.notes if is_decision(note)]
    sections = {
        "What the user asked for": [" ".join(text.split())[:300] for text in asked],
        "Files read": [f"`{path}`" for path in read],
        "Files with proposed edits": [f"`{path}`" for path in edited],
        "Decisions": [note.splitlines()[0][:300] for note in decided],
    }
    parts = [
        "\n".join([f"## {head}", "", *(f"- {line}" for line in lines)]) for head, lines in sections.items() if lines
    ]
    return "\n\n".join(parts) or "Nothing has been said yet."


def _demanded(request: ChatRequest, offered: Collection[str], turn: Turn) -> str:
    """The function that must be called, by `tool_choice` or because the user's words name it; empty if none."""
    if forced := forced_function(request):
        return forced
    if turn.steps:
        return ""
    named = (name for name in offered if re.search(rf"\b(?:call|use)\b.*\b{re.escape(name)}\b", turn.text))
    return next(named, next(iter(offered)) if request.get("tool_choice") == "required" else "")


def _made_up(schema: dict[str, Any]) -> dict[str, Any]:
    """Arguments that a JSON Schema of an object takes: its required properties, by their types."""
    properties = schema.get("properties", {})
    values = {"string": "demo", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    made: dict[str, Any] = {}
    for name in schema.get("required", ()):
        shape = properties.get(name, {})
        made[name] = shape["enum"][0] if shape.get("enum") else values.get(shape.get("type"), "demo")
    return made
