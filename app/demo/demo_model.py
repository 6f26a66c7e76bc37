"""The demo model: rules that answer a chat request from its conversation.

It behaves badly on purpose. After an edit is staged, it continues to edit as long as `tool_choice` lets it call
tools. Only `"none"` makes it stop, and then it follows the system message. In this way the demo shows the gate at
work.
"""

import ast
import re
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePosixPath
from typing import Any

from app.demo import editing_skills
from app.demo.demo_conversation import (
    MAX_QUOTED_LINES,
    WORDING,
    DemoKnownFiles,
    DemoReply,
    DemoTaskWithTurns,
    DemoTurn,
    PlannedCall,
    content_text,
    find_current_task,
    find_proposal_ids,
    format_code_list,
    is_decision_note,
    make_code_block_of_last_lines,
    parse_turns_from_messages,
    read_intent,
)
from app.demo.editing_skills import ScriptedDemoAgents, make_question_instead_of_fix
from app.text.quantities import format_count, join_with_and

_ASIDE_WORDING: dict[str, str] = WORDING["aside"]
_FENCED = r"\n(?P<fence>`{3,})\n(?P<lines>.*?)\n(?P=fence)"
_ABOUT_PROPOSAL = re.compile(r"about proposal (?P<id>P\d+) \([^)]*\): (?P<summary>.*?)\. It is ", re.DOTALL)
_ABOUT_HUNK = re.compile(rf"about hunk \d+ of \d+, in (?P<path>.+) from line \d+ on:{_FENCED}", re.DOTALL)
_SURROUNDING_LINES = re.compile(rf"with its line numbers:{_FENCED}", re.DOTALL)
_LINE_NUMBER = re.compile(r"^ *\d+  ?", re.MULTILINE)
_DEFINED_NAME = re.compile(
    r"^[-+ ]?\s*(?:(?:async )?def|class)\s+(\w+)|^[-+]?([A-Z][A-Z0-9_]{2,})\b\s*=", re.MULTILINE
)
_MAX_USES = 6


def answer_side_question(messages: Sequence[dict[str, Any]], turns: Sequence[DemoTurn]) -> str | None:
    """Return the answer to a side question; None if the last message is not one."""
    notes = [
        content_text(message.get("content")) for message in messages if message["role"] in ("system", "developer")
    ]
    note = next((note for note in reversed(notes) if _ASIDE_WORDING["begins"] in note), "")
    question = content_text(messages[-1].get("content"))
    if not note or messages[-1]["role"] != "user":
        return None
    about, hunk = _ABOUT_PROPOSAL.search(note), _ABOUT_HUNK.search(note)
    if hunk is None:
        return _ASIDE_WORDING["whole"]
    texts = DemoKnownFiles(call for turn in turns for call in turn.calls).texts
    if re.search(_ASIDE_WORDING["uses_asked"], question, re.IGNORECASE):
        return _describe_uses(hunk["path"], hunk["lines"], _surrounding_lines(note), texts)
    if about is not None and re.search(_ASIDE_WORDING["why_asked"], question, re.IGNORECASE):
        return (
            _ASIDE_WORDING["why"].format(summary=about["summary"], id=about["id"])
            + "\n\n"
            + _describe_change(hunk["lines"])
        )
    return f"{_describe_change(hunk['lines'])}\n\n{_ASIDE_WORDING['more']}"


def _surrounding_lines(note: str) -> str:
    found = _SURROUNDING_LINES.search(note)
    return _LINE_NUMBER.sub("", found["lines"]) if found is not None else ""


def _describe_change(lines: str) -> str:
    removed = "\n".join(line[1:] for line in lines.split("\n") if line.startswith("-"))
    added = "\n".join(line[1:] for line in lines.split("\n") if line.startswith("+"))
    parts = [f"It takes this out:\n\n{make_code_block_of_last_lines(removed)}"] if removed else []
    lead = "And puts this in its place" if removed else "It puts this in"
    return "\n\n".join([*parts, f"{lead}:\n\n{make_code_block_of_last_lines(added)}"] if added else parts)


def _describe_uses(path: str, lines: str, around: str, texts: Mapping[str, str]) -> str:
    """Return the uses of the names that a hunk defines, or that surround it, in the files that were read."""
    names = _defined_names(lines) or _defined_names(around)
    if not names:
        return _ASIDE_WORDING["no_name"]
    places = []
    for file, text in {path: around, **texts}.items():
        for line in text.splitlines():
            if not _DEFINED_NAME.match(line) and any(re.search(rf"\b{re.escape(name)}\b", line) for name in names):
                places.append(f"- `{file}`: `{line.strip()}`")
    read = join_with_and([f"`{file}`" for file in dict.fromkeys([path, *texts])])
    if not places:
        return _ASIDE_WORDING["unused"].format(names=format_code_list(names), read=read)
    found = "\n".join(dict.fromkeys(places[:_MAX_USES]))
    return f"{_ASIDE_WORDING['used'].format(names=format_code_list(names), read=read)}\n\n{found}"


def _defined_names(text: str) -> list[str]:
    return list(dict.fromkeys(name for found in _DEFINED_NAME.findall(text) for name in found if name))


_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def explain_project(texts: Mapping[str, str], file_count: int) -> str:
    """Return a description of a workspace from the files that were read."""
    readme = next((text for path, text in texts.items() if PurePosixPath(path).stem.lower() == "readme"), "")
    opening = _first_paragraph(readme)
    rows = [f"`{path}` | {len(text.splitlines())} | {_purpose(path, text)}" for path, text in texts.items()]
    parts = [f"**{opening}**" if opening else "There is no README, so this is from the files themselves."]
    parts.append(f"The workspace has {file_count} files; I read {len(texts)} of them.")
    parts.append(_markdown_table("file | lines | what it is", rows))
    return "\n\n".join([*parts, "Ask me to explain one of them and I go into it."])


def explain_file(path: str, text: str) -> str:
    """Return a description of a file in Markdown."""
    parts = [f"**`{path}`**, {len(text.splitlines())} lines. {_purpose(path, text)}".strip()]
    tree = _parse_python(path, text) or ast.Module([], [])
    nodes = [node for node in tree.body if isinstance(node, _Definition)]
    if nodes:
        rows = [f"`{_signature(node)}` | {node.lineno} | {_docstring(node) or '—'}" for node in nodes]
        parts.append(_markdown_table("what | line | what it says of itself", rows))
    opening, suffix = "\n".join(text.splitlines()[:MAX_QUOTED_LINES]), PurePosixPath(path).suffix[1:]
    block = make_code_block_of_last_lines(opening, language=WORDING["languages"].get(suffix, ""))
    parts.append(f"It begins like this:\n\n{block}")
    if silent := format_code_list([node.name for node in nodes if not _docstring(node)]):
        parts.append(f"No docstring: {silent}. Ask me to *add docstrings to {path}* and I propose some.")
    return "\n\n".join(parts)


def _markdown_table(head: str, rows: Sequence[str]) -> str:
    return "\n".join(f"| {row} |" for row in (head, "--- | ---: | ---", *rows))


def _signature(node: _Definition) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    return f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"


def _purpose(path: str, text: str) -> str:
    """Return one line about a file, safe in a table cell."""
    if path.endswith(".py"):
        tree = _parse_python(path, text)
        return "This is no valid Python." if tree is None else _docstring(tree)
    found = re.search(r'^description\s*=\s*"(.+)"$', text, re.MULTILINE)
    prose = _first_paragraph(text) if path.endswith((".md", ".rst", ".txt")) else ""
    return _table_cell(found[1] if found else prose)


def _parse_python(path: str, text: str) -> ast.Module | None:
    """Return the syntax tree of a Python file; None for other files and invalid code."""
    try:
        return ast.parse(text) if path.endswith(".py") else None
    except (SyntaxError, ValueError):
        return None


def _docstring(node: _Definition | ast.Module) -> str:
    """Return the first line of the docstring, safe in a table cell."""
    return _table_cell((ast.get_docstring(node) or "").strip().partition("\n")[0])


def _first_paragraph(text: str) -> str:
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return next((paragraph for paragraph in paragraphs if paragraph and paragraph[0] not in "#`"), "")


def _table_cell(text: str) -> str:
    return text.replace("|", "\\|")[:110]


_OVERVIEW_FILES = 8
"""Maximum number of files read for one overview."""


def make_help_reply(task: DemoTaskWithTurns) -> DemoReply:
    """Return a reply that lists the demo model's abilities, or answers the user's thanks."""
    return DemoReply(WORDING["welcome" if task.intent.kind == "thanks" else "help"])


def make_clarifying_question(task: DemoTaskWithTurns) -> DemoReply:
    """Return a reply that asks what a vague request means or, after the user's answer, says that it is too much."""
    if answers := [answer for turn in task.thread for answer in turn.answers]:
        return DemoReply(
            f"I take that as: {answers[-1].strip()}\n\nThat goes beyond a demo model. {WORDING['abilities']}"
        )
    what = f"`{task.intent.paths[0]}`" if task.intent.paths else "this"
    question = PlannedCall("ask_user", {"question": WORDING["question"], "options": WORDING["options"]})
    return DemoReply(f"There is more than one way to make {what} better, so I'd rather ask than guess.", [question])


def make_code_explanation(task: DemoTaskWithTurns) -> DemoReply:
    """Return a reply that explains the named files or the project, or first makes the calls to read them."""
    findings, named = task.results_of_turn, task.intent.paths
    if task.listed_files is None:
        if calls := findings.calls_to_read(named):
            return DemoReply("Let me read that.", calls)
        if not named or len(findings.read_file_texts(named)) < len(named):
            return DemoReply("Let me see what is here.", [PlannedCall("list_files", {})])
        return DemoReply("\n\n".join(explain_file(path, findings.texts[path]) for path in named))
    chosen = _matching_files(task)
    paths = chosen or _overview_files(task.listed_files)
    if calls := findings.calls_to_read(paths):
        return DemoReply("I read " + ("that." if len(calls) == 1 else "the files that matter most."), calls)
    texts = findings.read_file_texts(paths)
    if not texts:
        return DemoReply(f"I could not read {format_code_list(paths) or 'anything'}.")
    told = [explain_file(path, text) for path, text in texts.items()] if chosen else []
    return DemoReply("\n\n".join(told) or explain_project(texts, len(task.listed_files)))


def _matching_files(task: DemoTaskWithTurns) -> list[str]:
    """Return the files that a request names, else those whose stem is one of its words."""
    paths, words = task.listed_files or [], set(re.findall(r"\w+", task.text.lower()))
    by_name = [path for path in paths for name in task.intent.paths if f"/{path}".endswith(f"/{name}")]
    by_word = [path for path in paths if PurePosixPath(path).stem.lower().strip("_") in words]
    return by_name or by_word[:2]


def _overview_files(paths: list[str]) -> list[str]:
    """Return the files that explain a project best."""
    first = [path for path in paths if PurePosixPath(path).name in ("README.md", "pyproject.toml", "package.json")]
    code = [path for path in paths if path.endswith((".py", ".ts", ".js", ".go", ".rs")) and "test" not in path]
    return list(dict.fromkeys(first + sorted(code, key=lambda path: (path.count("/"), path)) or paths))[
        :_OVERVIEW_FILES
    ]


_SKILLS = {
    "fix": editing_skills.find_bug_and_propose_fix,
    "vague": make_clarifying_question,
    "explain": make_code_explanation,
}
_NOTES_FILE = "SUMMARY_OF_CHANGES.md"
"""The file that the model writes, unasked, unless it is stopped."""


def reply_to_request(request: dict[str, Any], agents: ScriptedDemoAgents | None = None) -> DemoReply:
    """Return the response to the body of a chat request.

    Args:
        agents: Agents of the sample workspace; None in other workspaces.

    Raises:
        LookupError, TypeError, ValueError: The body is not in the form of the Chat Completions API.
    """
    turns = parse_turns_from_messages(request["messages"])
    turn, choice = turns[-1], request.get("tool_choice")
    functions = [tool["function"] for tool in request.get("tools") or ()]
    offered = {function["name"]: function.get("parameters") or {} for function in functions}
    if choice == "none" and (said := answer_side_question(request["messages"], turns)) is not None:
        return DemoReply(said)
    if choice == "none" or not offered:
        last = request["messages"][-1]
        note = DemoTurn(notes=[content_text(last.get("content"))] if last["role"] != "user" else [])
        return DemoReply(_summarise(turns) if note.has_note("summarise") else _reply_without_tools(turns, agents))
    named = [name for name in offered if re.search(rf"\b(?:call|use)\b.*\b{re.escape(name)}\b", turn.text)]
    if isinstance(choice, dict):
        named = [choice["function"]["name"]]
    elif turn.steps:
        named = []
    elif choice == "required":
        named = [*named, *offered]
    if named:
        return DemoReply("", [PlannedCall(named[0], _make_up_arguments(offered[named[0]]))])
    if turn.staged_edits:
        return (
            _make_bad_extra_edit(turn)
            if "write_file" in offered
            else DemoReply(_summarise_staged_edits(turns, agents))
        )
    reply = _next_step(turns, agents)
    if missing := [call.name for call in reply.calls if call.name not in offered]:
        return DemoReply(f"For that I need the tool `{missing[0]}`, which I was not given.")
    return reply


def _next_step(turns: Sequence[DemoTurn], agents: ScriptedDemoAgents | None) -> DemoReply:
    """Return the next step of a task while tools may be called."""
    task, turn = find_current_task(turns), turns[-1]
    if failed := [call for call in turn.edits if not call.is_staged]:
        block = make_code_block_of_last_lines(failed[-1].result or "It never ran.")
        return DemoReply(f"My edit was not taken:\n\n{block}\n\nI stop here.")
    if task.intent.kind == "summary":
        return DemoReply(_summarise(turns))
    if turn.images and not turn.steps and task.intent.kind != "fix":
        return DemoReply(WORDING["no_eyes"].format(images=format_count(turn.images, "image")))
    if turn.has_note("ask_first") and not turn.answers:
        return make_question_instead_of_fix(task)
    if reply := _follow_up_reply(task):
        return reply
    match task.intent.kind:
        case "agents":
            return editing_skills.propose_with_other_agents(task, agents)
        case "heard":
            return editing_skills.make_reply_quoting_agents_decisions(agents)
    return _SKILLS.get(task.intent.kind, make_help_reply)(task)


def _follow_up_reply(task: DemoTaskWithTurns) -> DemoReply | None:
    """Return the answer of a turn that follows a finished one; None if there is work to do."""
    turn, earlier = task.turn, task.thread[:-1]
    if not earlier or turn.steps or turn.has_note("denied"):
        return None
    if turn.has_note("approved"):
        names = join_with_and([f"**{name}**" for name in find_proposal_ids(turn.notes)]) or "The proposal"
        files = _list_staged_files(next((past for past in reversed(earlier) if past.staged_edits), turn))
        return DemoReply(f"{names} is in: {files or 'all I had planned'}.")
    if earlier[-1].staged_edits:
        return DemoReply(f"I have proposed what I had in mind. {WORDING['how_to_decide']}")
    last = earlier[-1].steps[-1:]
    if not last or last[0].calls or turn.has_note("interrupted"):
        return None
    return DemoReply("That was all that I had to say. Ask me for *help* to see what else there is.")


def _make_bad_extra_edit(turn: DemoTurn) -> DemoReply:
    """Return one more edit, although the proposal is pending (a bad habit on purpose)."""
    paths = [str(call.arguments.get("path")) for call in turn.edits]
    lines = [f"- `{path}`" for path in dict.fromkeys(paths) if path != _NOTES_FILE]
    lines += [f"- polished, round {number}" for number in range(1, paths.count(_NOTES_FILE) + 2)]
    content = "\n".join(["# Summary of changes", "", *lines, ""])
    arguments = {"path": _NOTES_FILE, "content": content, "summary": "Sum the changes up"}
    return DemoReply("While I am at it, I polish this a little more.", [PlannedCall("write_file", arguments)])


def _reply_without_tools(turns: Sequence[DemoTurn], agents: ScriptedDemoAgents | None) -> str:
    """Return the answer if no tool may be called."""
    if turns[-1].staged_edits:
        return _summarise_staged_edits(turns, agents)
    reply = _next_step(turns, agents)
    if not reply.calls:
        return reply.text
    names = format_code_list(list(dict.fromkeys(call.name for call in reply.calls)))
    return f"To go on I would have to call {names}, and no tools may be called now. Say *continue* and I do."


def _summarise_staged_edits(turns: Sequence[DemoTurn], agents: ScriptedDemoAgents | None) -> str:
    """Return a short summary of the staged edits that names the proposals and ends the turn."""
    turn = turns[-1]
    ids = dict.fromkeys(name for call in turn.staged_edits for name in find_proposal_ids([call.result])[:1])
    about = next(
        (f" {call.arguments['summary']}." for call in turn.staged_edits if call.arguments.get("summary")), ""
    )
    waits, change = ("are staged and wait", "They change") if len(ids) > 1 else ("is staged and waits", "It changes")
    names = join_with_and([f"**{name}**" for name in ids]) or "My proposal"
    told = f"{names} {waits} for you:{about} {change} {_list_staged_files(turn)}; nothing is written yet."
    if find_current_task(turns).intent.kind == "agents":
        return f"{told}\n\n{WORDING['with_agents']['waits']}"
    offers = agents is not None and not agents.have_proposed
    return "\n\n".join([told, WORDING["how_to_decide"], *([WORDING["offer"]] if offers else [])])


def _list_staged_files(turn: DemoTurn) -> str:
    return format_code_list(list(dict.fromkeys(str(call.arguments.get("path")) for call in turn.staged_edits)))


def _summarise(turns: Sequence[DemoTurn]) -> str:
    """Return a summary of the conversation, for the user or for a client that compacts its context."""
    calls = [call for turn in turns for call in turn.calls]
    asked = [turn.text for turn in turns if turn.text and read_intent(turn.text).kind != "summary"]
    sections: dict[str, Collection[str]] = {
        "What the user asked for": [" ".join(text.split())[:300] for text in asked],
        "Files read": [f"`{call.arguments.get('path')}`" for call in calls if call.name == "read_file"],
        "Files with proposed edits": [f"`{call.arguments.get('path')}`" for call in calls if call.is_staged],
        "Decisions": [note.splitlines()[0][:300] for turn in turns for note in turn.notes if is_decision_note(note)],
    }
    filled = {head: dict.fromkeys(lines) for head, lines in sections.items() if lines}
    parts = ["\n".join([f"## {head}", "", *(f"- {line}" for line in lines)]) for head, lines in filled.items()]
    return "\n\n".join(parts) or "Nothing has been said yet."


def _make_up_arguments(schema: dict[str, Any]) -> dict[str, Any]:
    """Return arguments that a JSON Schema of an object accepts: its required properties, by their types."""
    values = {"string": "demo", "integer": 1, "number": 1.0, "boolean": True, "array": [], "object": {}}
    shapes = {name: schema.get("properties", {}).get(name, {}) for name in schema.get("required", ())}
    return {
        name: shape["enum"][0] if shape.get("enum") else values.get(shape.get("type"), "demo")
        for name, shape in shapes.items()
    }
