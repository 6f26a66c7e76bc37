"""The skills that change nothing: explain, search, ask, run the tests, say what there is to say."""

import re
from pathlib import PurePosixPath

from app.demo.explaining import explain_file, explain_project
from app.demo.findings import Match
from app.demo.task import Task
from app.demo.words import WORDS, NewCall, Reply, quoted, ticked

_MOST_FILES = 8
"""Files read for one overview."""
_MOST_MATCHES = 12
"""Matches shown."""
_RUNNER = r"\b(?:unittest|pytest|tox|nox|(?:npm|cargo|go|make) (?:run )?test)\b"
_COMMANDS = (re.compile(rf"`([^`\n]*{_RUNNER}[^`\n]*)`"), re.compile(rf"^\$? ?(\S[^\n]*{_RUNNER}.*)$", re.MULTILINE))
_EXIT_CODE = re.compile(r"\bexit code (\d+)")
_STOP_WORDS = frozenset(WORDS["stop_words"].split())


def say_help(task: Task) -> Reply:
    """What the demo model can do, or a friendly word."""
    return Reply(WORDS["welcome" if task.intent.kind == "thanks" else "help"])


def ask(task: Task) -> Reply:
    """Ask which of several things a vague request means."""
    if answers := [answer for turn in task.thread for answer in turn.answers]:
        return Reply(f"I take that as: {answers[-1].strip()}\n\nThat goes beyond a demo model. {WORDS['abilities']}")
    what = f"`{task.intent.paths[0]}`" if task.intent.paths else "this"
    question = NewCall("ask_user", {"question": WORDS["question"], "options": WORDS["options"]})
    return Reply(f"There is more than one way to make {what} better, so I'd rather ask than guess.", [question])


def explain(task: Task) -> Reply:
    """Explain the files that the request names, or the whole project."""
    findings, named = task.findings, task.intent.paths
    if task.listed is None:
        if calls := findings.readings(named):
            return Reply("Let me read that.", calls)
        if not named or len(findings.read(named)) < len(named):
            return Reply("Let me see what is here.", [NewCall("list_files", {})])
        return Reply("\n\n".join(explain_file(path, findings.texts[path]) for path in named))
    chosen = _meant(task)
    paths = chosen or _overview(task.listed)
    if calls := findings.readings(paths):
        return Reply("I read " + ("that." if len(calls) == 1 else "the files that matter most."), calls)
    texts = findings.read(paths)
    if not texts:
        return Reply(f"I could not read {ticked(paths) or 'anything'}.")
    told = [explain_file(path, text) for path, text in texts.items()] if chosen else []
    return Reply("\n\n".join(told) or explain_project(texts, len(task.listed)))


def _meant(task: Task) -> list[str]:
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


def search(task: Task) -> Reply:
    """Look for the words of the request in the workspace, one after the other, and show where they occur."""
    words, findings = _keywords(task.text), task.findings
    searched = [str(call.arguments.get("pattern")) for call in task.turn.calls if call.name == "search_text"]
    if findings.matches:
        return Reply(_shown_matches(searched[-1], findings.matches))
    if left := words[len(searched) :]:
        text = f"{'Nothing. I try' if searched else 'I look for'} *{left[0]}*."
        return Reply(text, [NewCall("search_text", {"pattern": left[0], "ignore_case": True})])
    if not searched:
        return say_help(task)
    failed = f"The search failed:\n\n{quoted(findings.search_error)}" if findings.search_error else ""
    return Reply(failed or f"I found nothing for {ticked(words)}. {WORDS['free_question']} {WORDS['abilities']}")


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
    found = f"*{pattern}* stands in {lines}:\n\n" + quoted("\n".join(shown))
    return f"{found}\n\n{WORDS['free_question']} To go on, ask me to *explain {matches[0][0]}*."


def run_tests(task: Task) -> Reply:
    """Run the test command that the workspace's own notes name."""
    if done := [call.result for call in task.turn.calls if call.name == "run_command"]:
        return Reply(_test_report(done[-1]))
    if task.listed is None:
        return Reply("Let me see how the tests are run here.", [NewCall("list_files", {})])
    notes = [path for path in task.listed if path in ("AGENTS.md", "README.md", "CONTRIBUTING.md")]
    if calls := task.findings.readings(notes):
        return Reply("The project's notes should say.", calls)
    for text in task.findings.texts.values():
        if command := next((found[1] for pattern in _COMMANDS if (found := pattern.search(text))), ""):
            return Reply(f"`{command}` it is.", [NewCall("run_command", {"command": command})])
    return Reply("I found no test command in the project's notes. Tell me in AGENTS.md how the tests are run.")


def _test_report(result: str) -> str:
    exit_code = _EXIT_CODE.search(result)
    ended = "The tests **pass**." if exit_code and exit_code[1] == "0" else WORDS["tests_fail"]
    return f"{ended if exit_code else 'The tests did not run to an end:'}\n\n{quoted(result)}"
