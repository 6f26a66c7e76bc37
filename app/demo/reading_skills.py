"""The skills that change nothing: explain, search, ask, run the tests, say what there is to say."""

import ast
import re
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from app.demo.demo_conversation import DemoTask, Match
from app.demo.demo_words import MOST_LINES, WORDS, DemoReply, NewCall, code_list, fenced_code

_Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def explain_project(texts: Mapping[str, str], file_count: int) -> str:
    """Return a description of a workspace from the files that were read."""
    readme = next((text for path, text in texts.items() if PurePosixPath(path).stem.lower() == "readme"), "")
    opening = _first_paragraph(readme)
    rows = [f"`{path}` | {len(text.splitlines())} | {_purpose(path, text)}" for path, text in texts.items()]
    parts = [f"**{opening}**" if opening else "There is no README, so this is from the files themselves."]
    parts.append(f"The workspace has {file_count} files; I read {len(texts)} of them.")
    parts.append(_table("file | lines | what it is", rows))
    return "\n\n".join([*parts, "Ask me to explain one of them and I go into it."])


def explain_file(path: str, text: str) -> str:
    """Return a description of a file in Markdown."""
    parts = [f"**`{path}`**, {len(text.splitlines())} lines. {_purpose(path, text)}".strip()]
    tree = _parsed(path, text) or ast.Module([], [])
    nodes = [node for node in tree.body if isinstance(node, _Definition)]
    if nodes:
        rows = [f"`{_signature(node)}` | {node.lineno} | {_docstring(node) or '—'}" for node in nodes]
        parts.append(_table("what | line | what it says of itself", rows))
    opening, suffix = "\n".join(text.splitlines()[:MOST_LINES]), PurePosixPath(path).suffix[1:]
    parts.append(f"It begins like this:\n\n{fenced_code(opening, language=WORDS['languages'].get(suffix, ''))}")
    if silent := code_list([node.name for node in nodes if not _docstring(node)]):
        parts.append(f"No docstring: {silent}. Ask me to *add docstrings to {path}* and I propose some.")
    return "\n\n".join(parts)


def _table(head: str, rows: Sequence[str]) -> str:
    return "\n".join(f"| {row} |" for row in (head, "--- | ---: | ---", *rows))


def _signature(node: _Definition) -> str:
    if isinstance(node, ast.ClassDef):
        return f"class {node.name}"
    return f"{node.name}({', '.join(argument.arg for argument in node.args.args)})"


def _purpose(path: str, text: str) -> str:
    """One line about a file, safe in a table cell."""
    if path.endswith(".py"):
        tree = _parsed(path, text)
        return "This is no valid Python." if tree is None else _docstring(tree)
    found = re.search(r'^description\s*=\s*"(.+)"$', text, re.MULTILINE)
    prose = _first_paragraph(text) if path.endswith((".md", ".rst", ".txt")) else ""
    return _cell(found[1] if found else prose)


def _parsed(path: str, text: str) -> ast.Module | None:
    """The syntax tree of Python; None if it isn't."""
    try:
        return ast.parse(text) if path.endswith(".py") else None
    except (SyntaxError, ValueError):
        return None


def _docstring(node: _Definition | ast.Module) -> str:
    """Its first line, safe in a table cell."""
    return _cell((ast.get_docstring(node) or "").strip().partition("\n")[0])


def _first_paragraph(text: str) -> str:
    paragraphs = (" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text))
    return next((paragraph for paragraph in paragraphs if paragraph and paragraph[0] not in "#`"), "")


def _cell(text: str) -> str:
    return text.replace("|", "\\|")[:110]


_MOST_FILES = 8
"""Files read for one overview."""
_MOST_MATCHES = 12
"""Matches shown."""
_RUNNER = r"\b(?:unittest|pytest|tox|nox|(?:npm|cargo|go|make) (?:run )?test)\b"
_COMMANDS = (re.compile(rf"`([^`\n]*{_RUNNER}[^`\n]*)`"), re.compile(rf"^\$? ?(\S[^\n]*{_RUNNER}.*)$", re.MULTILINE))
_EXIT_CODE = re.compile(r"\bexit code (\d+)")
_STOP_WORDS = frozenset(WORDS["stop_words"].split())


def say_help(task: DemoTask) -> DemoReply:
    """Return a list of what the demo model can do, or a friendly word."""
    return DemoReply(WORDS["welcome" if task.intent.kind == "thanks" else "help"])


def ask(task: DemoTask) -> DemoReply:
    """Ask which of several things a vague request means."""
    if answers := [answer for turn in task.thread for answer in turn.answers]:
        return DemoReply(
            f"I take that as: {answers[-1].strip()}\n\nThat goes beyond a demo model. {WORDS['abilities']}"
        )
    what = f"`{task.intent.paths[0]}`" if task.intent.paths else "this"
    question = NewCall("ask_user", {"question": WORDS["question"], "options": WORDS["options"]})
    return DemoReply(f"There is more than one way to make {what} better, so I'd rather ask than guess.", [question])


def explain(task: DemoTask) -> DemoReply:
    """Explain the files that the request names, or the whole project."""
    findings, named = task.findings, task.intent.paths
    if task.listed is None:
        if calls := findings.readings(named):
            return DemoReply("Let me read that.", calls)
        if not named or len(findings.read(named)) < len(named):
            return DemoReply("Let me see what is here.", [NewCall("list_files", {})])
        return DemoReply("\n\n".join(explain_file(path, findings.texts[path]) for path in named))
    chosen = _meant(task)
    paths = chosen or _overview(task.listed)
    if calls := findings.readings(paths):
        return DemoReply("I read " + ("that." if len(calls) == 1 else "the files that matter most."), calls)
    texts = findings.read(paths)
    if not texts:
        return DemoReply(f"I could not read {code_list(paths) or 'anything'}.")
    told = [explain_file(path, text) for path, text in texts.items()] if chosen else []
    return DemoReply("\n\n".join(told) or explain_project(texts, len(task.listed)))


def _meant(task: DemoTask) -> list[str]:
    """The files that a request means: those that it names, else those whose stem is one of its words."""
    paths, words = task.listed or [], set(re.findall(r"\w+", task.text.lower()))
    by_name = [path for path in paths for name in task.intent.paths if f"/{path}".endswith(f"/{name}")]
    by_word = [path for path in paths if PurePosixPath(path).stem.lower().strip("_") in words]
    return by_name or by_word[:2]


def _overview(paths: list[str]) -> list[str]:
    """The files that tell most about a project."""
    first = [path for path in paths if PurePosixPath(path).name in ("README.md", "pyproject.toml", "package.json")]
    code = [path for path in paths if path.endswith((".py", ".ts", ".js", ".go", ".rs")) and "test" not in path]
    return list(dict.fromkeys(first + sorted(code, key=lambda path: (path.count("/"), path)) or paths))[:_MOST_FILES]


def search(task: DemoTask) -> DemoReply:
    """Look for the words of the request in the workspace, one after the other, and show where they occur."""
    words, findings = _keywords(task.text), task.findings
    searched = [str(call.arguments.get("pattern")) for call in task.turn.calls if call.name == "search_text"]
    if findings.matches:
        return DemoReply(_shown_matches(searched[-1], findings.matches))
    if left := words[len(searched) :]:
        text = f"{'Nothing. I try' if searched else 'I look for'} *{left[0]}*."
        return DemoReply(text, [NewCall("search_text", {"pattern": left[0], "ignore_case": True})])
    if not searched:
        return say_help(task)
    failed = f"The search failed:\n\n{fenced_code(findings.search_error)}" if findings.search_error else ""
    return DemoReply(
        failed or f"I found nothing for {code_list(words)}. {WORDS['free_question']} {WORDS['abilities']}"
    )


def _keywords(text: str) -> list[str]:
    """Up to three words worth searching for: quoted ones and names first, then the longest."""
    in_quotes = re.findall(r"[`\"']([^`\"'\n]{2,60})[`\"']", text)
    words = [word for word in re.findall(r"\w{4,}", text) if word.lower() not in _STOP_WORDS]
    names = [word for word in words if "_" in word or not (word.islower() or word.istitle())]
    # The plural of a word is seldom what is looked for.
    plain = sorted((word.removesuffix("s") for word in words if word not in names), key=len, reverse=True)
    return list(dict.fromkeys([*in_quotes, *names, *plain]))[:3]


def _shown_matches(pattern: str, matches: list[Match]) -> str:
    shown = [f"{path}:{line}: {text.strip()[:100]}" for path, line, text in matches[:_MOST_MATCHES]]
    lines = "1 line" if len(matches) == 1 else f"{len(matches)} lines"
    found = f"*{pattern}* stands in {lines}:\n\n" + fenced_code("\n".join(shown))
    return f"{found}\n\n{WORDS['free_question']} To go on, ask me to *explain {matches[0][0]}*."


def run_tests(task: DemoTask) -> DemoReply:
    """Run the test command that the workspace's own notes name."""
    if done := [call.result for call in task.turn.calls if call.name == "run_command"]:
        return DemoReply(_test_report(done[-1]))
    if task.listed is None:
        return DemoReply("Let me see how the tests are run here.", [NewCall("list_files", {})])
    notes = [path for path in task.listed if path in ("AGENTS.md", "README.md", "CONTRIBUTING.md")]
    if calls := task.findings.readings(notes):
        return DemoReply("The project's notes should say.", calls)
    for text in task.findings.texts.values():
        if command := next((found[1] for pattern in _COMMANDS if (found := pattern.search(text))), ""):
            return DemoReply(f"`{command}` it is.", [NewCall("run_command", {"command": command})])
    return DemoReply("I found no test command in the project's notes. Tell me in AGENTS.md how the tests are run.")


def _test_report(result: str) -> str:
    exit_code = _EXIT_CODE.search(result)
    ended = "The tests **pass**." if exit_code and exit_code[1] == "0" else WORDS["tests_fail"]
    return f"{ended if exit_code else 'The tests did not run to an end:'}\n\n{fenced_code(result)}"
