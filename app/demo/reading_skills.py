"""The skills that change nothing: explain, search, ask, run the tests, say what there is to say."""

import re
from pathlib import PurePosixPath

from app.demo.explaining import explain_file, explain_project
from app.demo.findings import Match
from app.demo.history import Call
from app.demo.reply import NewCall, Reply, quoted
from app.demo.task import Task

HELP = """\
I am **signoff's demo model**: a small program on your own machine that plays a language model. No key, no network.
I answer from what I read through the tools, and my edits wait for you like anybody's.

| ask me to … | and you see … |
| --- | --- |
| **explain** `tideline/tides.py` | files being read, an answer in Markdown |
| **fix the failing tests** | one proposal over two files |
| **rename** `tides_of_day` **to** `daily_tides` | a change in every file that uses a name |
| **add docstrings to** `tideline/table.py` | several hunks that you can take or leave |
| **improve it** | a question, because that can mean anything |
| **run the tests** | a command that waits for your yes |

A proposal waits in the panes at the right: F3 reads it, F4 lists what waits, and in both `y` approves, `n` denies and
`r` denies with a word of yours, for instance:

```
Give the number a name, and add a comment that says why.
```

I propose again, differently. And I have one bad habit: I don't stop editing by myself. That is what the gate is for.
"""

QUESTION = "What should I do?"
OPTIONS = ["Fix the failing tests", "Add the missing docstrings", "Explain the project first"]

_MOST_FILES = 8
"""Files read for one overview."""
_MOST_MATCHES = 12
"""Matches shown."""
_STOP_WORDS = frozenset({
    "about", "after", "again", "also", "been", "before", "could", "does", "doing", "done", "each", "every",
    "file", "files", "find", "from", "give", "have", "here", "into", "just", "like", "look", "make", "many",
    "more", "most", "much", "need", "only", "over", "please", "project", "search", "show", "some", "such", "tell",
    "than", "that", "their", "them", "then", "there", "these", "they", "thing", "think", "this", "those", "very",
    "want", "what", "when", "where", "which", "while", "will", "with", "within", "would", "your",
})  # fmt: skip
_COMMAND = re.compile(r"`([^`\n]*\b(?:unittest|pytest|tox|nox|(?:npm|cargo|go|make) (?:run )?test)\b[^`\n]*)`")
_EXIT_CODE = re.compile(r"\bexit (?:code|status):? (\d+)", re.IGNORECASE)
_FENCED_COMMAND = re.compile(
    r"^\$? ?(\S[^\n]*\b(?:unittest|pytest|npm test|cargo test|go test|make test)\b.*)$", re.MULTILINE
)


def say_help(task: Task) -> Reply:
    """What the demo model can do."""
    return Reply(HELP)


def say_thanks(task: Task) -> Reply:
    """A friendly word."""
    return Reply("You're welcome. Ask me for *help* to see what else there is.")


def ask(task: Task) -> Reply:
    """Ask which of several things a vague request means."""
    if answers := [answer for turn in task.thread for answer in turn.answers]:
        return Reply(f"I take that as: {answers[-1].strip()}\n\nThat goes beyond a demo model. " + _ABILITIES)
    what = f"`{task.intent.paths[0]}`" if task.intent.paths else "this"
    text = f"There is more than one way to make {what} better, so I'd rather ask than guess."
    return Reply(text, (NewCall("ask_user", {"question": QUESTION, "options": OPTIONS}),))


_ABILITIES = (
    "I can explain files, fix the sample's tests, rename things, add docstrings and search. Ask me for *help*."
)


def explain(task: Task) -> Reply:
    """Explain the files that the request names, or the whole project."""
    findings, named = task.findings, list(task.intent.paths)
    if task.listed is None:
        if calls := findings.readings(named):
            return Reply("Let me read that.", tuple(calls))
        if not named or any(path not in findings.texts for path in named):
            return Reply("Let me see what is here.", (NewCall("list_files", {}),))
        return Reply("\n\n".join(explain_file(path, findings.texts[path]) for path in named))
    chosen = _meant(task.text, named, task.listed)
    paths = chosen or _overview(task.listed)
    if calls := findings.readings(paths):
        return Reply("I read " + ("that." if len(calls) == 1 else "the files that matter most."), tuple(calls))
    return Reply(_explanation(task, paths, bool(chosen)))


def _explanation(task: Task, paths: list[str], in_depth: bool) -> str:
    texts = {path: task.findings.texts[path] for path in paths if path in task.findings.texts}
    if not texts:
        return "I could not read any of " + ", ".join(f"`{path}`" for path in paths) + "."
    if in_depth:
        return "\n\n".join(explain_file(path, text) for path, text in texts.items())
    return explain_project(texts, task.listed or [])


def _meant(text: str, named: list[str], listed: list[str]) -> list[str]:
    """The files that a request means: those that it names, else those whose stem is one of its words."""
    by_name = [path for path in listed for name in named if path == name or path.endswith(f"/{name}")]
    words = set(re.findall(r"\w+", text.lower()))
    by_word = [path for path in listed if PurePosixPath(path).stem.lower().strip("_") in words]
    return by_name or by_word[:2]


def _overview(listed: list[str]) -> list[str]:
    """The files that tell most about a project."""
    first = [path for path in listed if PurePosixPath(path).name in ("README.md", "pyproject.toml", "package.json")]
    code = [path for path in listed if path.endswith((".py", ".ts", ".js", ".go", ".rs")) and "test" not in path]
    return list(dict.fromkeys(first + sorted(code, key=lambda path: (path.count("/"), path)) or listed))[:_MOST_FILES]


def search(task: Task) -> Reply:
    """Look for the words of the request in the workspace and show where they occur."""
    words = _keywords(task.text)
    searched = [call for call in task.turn.calls if call.name == "search_text"]
    if task.findings.matches:
        return Reply(_shown_matches(str(searched[-1].arguments.get("pattern", "")), task.findings.matches))
    if len(searched) < len(words):
        word = words[len(searched)]
        text = f"I look for *{word}* in the workspace." if not searched else f"Nothing. I try *{word}*."
        return Reply(text, (NewCall("search_text", {"pattern": word, "ignore_case": True}),))
    if task.findings.search_error:
        return Reply(f"The search failed:\n\n{quoted(task.findings.search_error)}")
    if searched:
        tried = ", ".join(f"*{word}*" for word in words)
        return Reply(
            f"I found nothing for {tried}. I am only a demo model and read no deeper than that. {_ABILITIES}"
        )
    return Reply(HELP)


def _keywords(text: str) -> list[str]:
    """Up to three words worth searching for: quoted ones and names first, then the longest."""
    quoted = re.findall(r"[`\"']([^`\"'\n]{2,60})[`\"']", text)
    words = [word for word in re.findall(r"\w{4,}", text) if word.lower() not in _STOP_WORDS]
    names = [word for word in words if "_" in word or not (word.islower() or word.istitle())]
    # The plural of a word is seldom what is looked for.
    plain = [word.removesuffix("s") for word in sorted(words, key=len, reverse=True) if word not in names]
    return list(dict.fromkeys([*quoted, *names, *plain]))[:3]


def _shown_matches(pattern: str, matches: list[Match]) -> str:
    lines = [f"{match.path}:{match.line}: {match.text.strip()[:100]}" for match in matches[:_MOST_MATCHES]]
    files = len({match.path for match in matches})
    more = f" These are the first {_MOST_MATCHES}:" if len(matches) > _MOST_MATCHES else ""
    count = (
        f"{len(matches)} {'line' if len(matches) == 1 else 'lines'} in {files} {'file' if files == 1 else 'files'}"
    )
    listing = quoted("\n".join(lines))
    return (
        f"*{pattern}* stands in {count}.{more}\n\n{listing}\n\n"
        "I am a demo model, so this is as far as I get with a free question. To go on, ask me to "
        f"*explain {matches[0].path}*."
    )


def run_tests(task: Task) -> Reply:
    """Run the test command that the workspace's own notes name."""
    done = [call for call in task.turn.calls if call.name == "run_command"]
    if done:
        return Reply(_test_report(done[-1]))
    if task.listed is None:
        return Reply("Let me see how the tests are run here.", (NewCall("list_files", {}),))
    notes = [path for path in task.listed if path in ("AGENTS.md", "README.md", "CONTRIBUTING.md")]
    if calls := task.findings.readings(notes):
        return Reply("The project's notes should say.", tuple(calls))
    for text in task.findings.texts.values():
        if found := _COMMAND.search(text) or _FENCED_COMMAND.search(text):
            return Reply(f"`{found[1]}` it is.", (NewCall("run_command", {"command": found[1]}),))
    return Reply("I found no test command in the project's notes. Tell me in AGENTS.md how the tests are run.")


def _test_report(call: Call) -> str:
    exit_code = _EXIT_CODE.search(call.result)
    if exit_code is None:
        verdict = "The tests did not run to an end:"
    elif exit_code[1] == "0":
        verdict = "The tests **pass**."
    else:
        verdict = "The tests **fail**. Ask me to *fix the failing tests*."
    return f"{verdict}\n\n{quoted(call.result)}"
