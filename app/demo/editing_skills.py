"""The skills of the demo model that propose edits: its own, and those of two scripted agents.

It fixes the bug of the sample. The agents propose through `signoff hook`, as Claude Code and Codex do.
"""

import json
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from difflib import SequenceMatcher
from pathlib import Path, PurePosixPath
from typing import Any

from msgspec import Struct
from msgspec.structs import asdict

from app.copies import replace
from app.demo.demo_conversation import (
    PATH_PATTERN,
    WORDING,
    DemoReply,
    DemoTaskWithTurns,
    PlannedCall,
    format_code_list,
)
from app.text.quantities import join_with_and

_STAGED = re.compile(r"\b(P\d+)(?: is staged|, which you staged)\b")


class ScriptedDemoAgents:
    """Two scripted other agents that propose edits in the sample workspace through `signoff hook`."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.have_proposed = False
        """Whether the agents have proposed; they propose only once."""

    def propose_edits(self) -> dict[str, str]:
        """Let each agent propose its edit and end its turn; return the id of each proposal, by the agent's title.

        The id is empty if the edit was not staged.
        """
        self.have_proposed = True
        staged = {}
        for agent in WORDING["agents"]:
            call = {"tool_name": agent["tool"], "tool_input": agent["arguments"]}
            answer = self._read_hook_answer(self._start_hook(agent, "PreToolUse", "1", call))
            staged[agent["title"]] = "".join(_STAGED.findall(answer)[:1])
        # In parallel, because each process has to import signoff.
        ends = [
            self._start_hook(agent, "Stop", "1", {"last_assistant_message": agent["says"]})
            for agent in WORDING["agents"]
        ]
        for end in ends:
            self._read_hook_answer(end)
        return staged

    def read_decisions(self) -> dict[str, str]:
        """Return the decisions that each agent gets with its next prompt, by its title; only agents with any."""
        prompts = [
            (agent["title"], self._start_hook(agent, "UserPromptSubmit", "2", {})) for agent in WORDING["agents"]
        ]
        answers = {title: self._read_hook_answer(prompt) for title, prompt in prompts}
        return {
            title: json.loads(answer)["hookSpecificOutput"]["additionalContext"]
            for title, answer in answers.items()
            if answer
        }

    def _start_hook(
        self, agent: dict[str, Any], event: str, prompt: str, facts: dict[str, Any]
    ) -> "subprocess.Popen[str]":
        """Start the agent's hook, and write the call to it."""
        command = [sys.executable, "-P", "-m", "signoff", "hook", agent["name"], "--workspace", str(self._folder)]
        payload = {"session_id": "demo", "cwd": str(self._folder), "prompt_id": prompt, "hook_event_name": event}
        pipe = subprocess.PIPE
        hook = subprocess.Popen(
            command, stdin=pipe, stdout=pipe, stderr=subprocess.DEVNULL, cwd=self._folder, encoding="utf-8"
        )
        assert hook.stdin is not None
        hook.stdin.write(json.dumps({**payload, **facts}))
        hook.stdin.close()
        return hook

    def _read_hook_answer(self, hook: "subprocess.Popen[str]") -> str:
        """Return the answer on the standard output of a hook."""
        with hook:
            assert hook.stdout is not None
            return hook.stdout.read()


_LUNAR_DAY_CONSTANT = re.compile(
    r"^(?P<name>\w*LUNAR\w*) = timedelta\(hours=24(?P<rest>, minutes=50)?\)$", re.MULTILINE
)
_FLAT_STEP = re.compile(r"timedelta\(hours=(12|6)\)")
_CONSTANT_NAME = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b")
_FIX_WAYS: dict[str, dict[str, str]] = WORDING["fix"]
_FIX_TEXT: dict[str, str] = WORDING["fix_text"]


class TideBugLocation(Struct, frozen=True):
    """Where the sample's bug is: the lunar day's constant and its file, the file that uses flat hours, and a test."""

    constant: str
    moon: str
    tides: str
    """Empty if no file uses flat hours."""
    test: str
    """Empty if no test was read."""


class TideBugFixVariant(Struct, frozen=True):
    """One way to fix the tide bug: additional parts, the name it defines, and the only file it changes."""

    variants: frozenset[str] = frozenset()
    """Additional parts of the fix: keys of `fix` in words.toml."""
    name: str = "TIDAL_PERIOD"
    """The name of half a lunar day, if the fix defines one."""
    only: str = ""
    """The only file to change; empty for all."""

    def describe(self, bug: TideBugLocation) -> str:
        """Return how this fix differs from the plain one."""
        facts = {**asdict(bug), "name": self.name, "only": self.only}
        return " ".join(way["told"].format(**facts) for key, way in _FIX_WAYS.items() if key in self.variants)


def find_tide_bug(sources: Mapping[str, str]) -> TideBugLocation | None:
    """Return the bug in `sources` (text by path); None if it is not there."""
    found = next(
        ((path, match) for path, text in sources.items() if (match := _LUNAR_DAY_CONSTANT.search(text))), None
    )
    if found is None:
        return None
    moon, match = found
    code = [path for path in sources if path.endswith(".py") and not _is_test_file(path) and path != moon]
    tides = next((path for path in code if _FLAT_STEP.search(sources[path])), "")
    test = next((path for path in sources if _is_test_file(path) and "high_waters(" in sources[path]), "")
    return TideBugLocation(match["name"], moon, tides, test) if tides or not match["rest"] else None


def rank_fix_variants(feedback: Sequence[str], bug: TideBugLocation) -> Iterator[TideBugFixVariant]:
    """Yield ways to fix the bug, best first: the one that the feedback asks for, then variations of it."""
    asked = TideBugFixVariant()
    for words in feedback:
        asked = _follow_feedback(words, asked, bug)
    yield asked
    for more in ({"name", "comment"}, {"name"}, {"comment"}, {"docstring"}, {"comment", "docstring"}):
        yield replace(asked, variants=asked.variants - {"small"} | more)
    yield replace(asked, variants=asked.variants - {"comment", "docstring"})
    if bug.test:
        yield replace(asked, variants=asked.variants - {"small"} | {"name", "comment", "docstring", "test"})
    yield TideBugFixVariant(frozenset({"small"}))


def _follow_feedback(words: str, style: TideBugFixVariant, bug: TideBugLocation) -> TideBugFixVariant:
    """Return `style` changed by one piece of feedback."""
    asked, refused = set[str](), set[str]()
    for key, way in _FIX_WAYS.items():
        no = r"(?P<no>(?:no|not|without|don't|drop|remove)\b[^.;,\n]{0,16})?"
        if way["asked"] and (found := re.search(rf"\b{no}\b(?:{way['asked']})\b", words, re.IGNORECASE)):
            (refused if found["no"] else asked).add(key)
    capitals = [name for name in _CONSTANT_NAME.findall(words) if name != bug.constant]
    if capitals or "name" in asked:
        asked = asked - {"small"} | {"name"}
    ways = style.variants - {"small", "only"} - refused | asked - (set() if bug.test else {"test"})
    files = [path for path in PATH_PATTERN.findall(words) if path.endswith(".py")]
    only = next((path for path in (bug.moon, bug.tides) for file in files if path and path.endswith(file)), "")
    if "small" in ways:
        return (
            TideBugFixVariant(ways - {"small", "name"} | {"only"}, only=only)
            if only
            else TideBugFixVariant(ways - {"name"})
        )
    return TideBugFixVariant(ways, capitals[0] if capitals else style.name)


def texts_changed_by_fix(
    sources: Mapping[str, str], bug: TideBugLocation, variant: TideBugFixVariant
) -> dict[str, str]:
    """Return the files that the fix changes, with their new text."""
    after = {bug.moon: _fix_moon_file(sources[bug.moon], bug, variant)}
    if bug.tides:
        after[bug.tides] = _fix_tides_file(sources[bug.tides], bug, variant)
    if "test" in variant.variants:
        after[bug.test] = sources[bug.test].rstrip("\n") + _FIX_TEXT["test"]
    return {path: text for path, text in after.items() if text != sources[path] and variant.only in ("", path)}


def _fix_moon_file(text: str, bug: TideBugLocation, style: TideBugFixVariant) -> str:
    lines = [_FIX_TEXT["comment"]] if "comment" in style.variants else []
    lines.append(f"{bug.constant} = timedelta(hours=24, minutes=50)")
    documented = "docstring" in style.variants
    lines += [_FIX_TEXT["docstring"]] if documented else []
    if "name" in style.variants and style.name not in text:
        lines += ["", f"{style.name} = {bug.constant} / 2"]
        lines += [_FIX_TEXT["name_docstring"]] if documented else []
    return _LUNAR_DAY_CONSTANT.sub("\n".join(lines), text, count=1)


def _fix_tides_file(text: str, bug: TideBugLocation, style: TideBugFixVariant) -> str:
    name = style.name if "name" in style.variants else bug.constant
    whole, half = (name, f"{name} / 2") if "name" in style.variants else (f"{name} / 2", f"{name} / 4")
    if in_place := style.variants & {"small", "only"}:
        whole, half = "timedelta(hours=12, minutes=25)", "timedelta(hours=6, minutes=12, seconds=30)"
    text = text.replace("timedelta(hours=12)", whole).replace("timedelta(hours=6)", half)
    if "comment" in style.variants:
        step = re.compile(rf"^( *)(.*= {re.escape(whole)})$", re.MULTILINE)
        text = step.sub(rf"\1{_FIX_TEXT['step_comment']}\n\1\2", text)
    module = bug.moon.removeprefix("src/").removesuffix(".py").replace("/", ".")
    return text if in_place else _add_import(text, f"from {module} import {name}")


def _add_import(text: str, statement: str) -> str:
    """Return `text` with `statement` added to its imports, in alphabetical order among related ones."""
    imports = [line for line in text.split("\n") if line.startswith(("from ", "import "))]
    siblings = [line for line in imports if line.startswith(statement.split(".")[0] + ".")]
    later = next((line for line in siblings if line > statement), "")
    if statement in imports or not imports:
        return text if imports else f"{statement}\n{text}"
    place = later or (siblings or imports)[-1]
    return text.replace(place, f"{statement}\n{place}" if later else f"{place}\n{statement}", 1)


def _is_test_file(path: str) -> bool:
    return "tests" in PurePosixPath(path).parts or PurePosixPath(path).name.startswith("test_")


def make_question_instead_of_fix(task: DemoTaskWithTurns) -> DemoReply:
    """Return a question to the user instead of one more proposal."""
    told = _quote_last_feedback(task, "Before I propose the next thing, I ask.").rstrip()
    return DemoReply(told, [PlannedCall("ask_user", {"question": WORDING["another_way"]})])


def _quote_last_feedback(task: DemoTaskWithTurns, then: str) -> str:
    """Return the user's last feedback as a quote, followed by `then`; empty if there is no feedback."""
    if not task.feedback:
        return ""
    return f"You wrote:\n\n{_quote(task.feedback[-1])}\n\n{then} "


def _quote(text: str) -> str:
    return "\n".join(f"> {line}".rstrip() for line in text.splitlines())


def _make_edit_call(task: DemoTaskWithTurns, path: str, after: str, summary: str) -> PlannedCall:
    edits = edits_between(task.results_of_turn.texts[path], after)
    arguments: dict[str, Any] = {"path": path, "edits": edits, "summary": summary}
    version = task.results_of_turn.versions.get(path)
    return PlannedCall("edit_file", {**arguments, "version": version} if version else arguments)


def edits_between(before: str, after: str) -> list[dict[str, str]]:
    """Return the edits of an `edit_file` call that turn `before` into `after`.

    They have enough context that each `old` occurs only once in `before`.
    """
    old, new = before.splitlines(keepends=True), after.splitlines(keepends=True)
    matcher = SequenceMatcher(None, old, new, autojunk=False)
    for context in range(len(old) + 1):
        blocks = [(codes[0], codes[-1]) for codes in matcher.get_grouped_opcodes(context)]
        edits = [
            {"old": "".join(old[first[1] : last[2]]), "new": "".join(new[first[3] : last[4]])}
            for first, last in blocks
        ]
        if all(edit["old"].strip() and _occurs_once(edit["old"], before) for edit in edits):
            return edits
    return [{"old": before, "new": after}]


def _occurs_once(part: str, text: str) -> bool:
    """Return whether `part` occurs at only one place of `text`; `str.count` would miss overlapping places."""
    return text.find(part, text.find(part) + 1) < 0


_MAX_FILES = 12
"""Maximum number of files read in search of a bug."""
_FIX_SUMMARY = "Keep the moon's time: a lunar day is 24 h 50 min"


def find_bug_and_propose_fix(task: DemoTaskWithTurns) -> DemoReply:
    """Find the bug that makes the tests fail, and propose a fix."""
    if task.feedback and (known := find_tide_bug(task.results_of_task.texts)):
        if calls := task.results_of_turn.calls_to_read(filter(None, (known.moon, known.tides, known.test))):
            return DemoReply("I read the files again before I change the proposal.", calls)
    elif task.listed_files is None:
        return DemoReply("I'll look at what is here first.", [PlannedCall("list_files", {})])
    elif step := _next_reads(task, task.listed_files):
        return step
    texts = task.results_of_turn.texts
    if (bug := find_tide_bug(texts)) is None:
        return DemoReply(
            f"I read {format_code_list(list(texts)) or 'nothing'} and see nothing that I can mend. "
            f"{WORDING['no_bug']}"
        )
    for style in rank_fix_variants(task.feedback, bug):
        calls = [
            _make_edit_call(task, path, text, _FIX_SUMMARY)
            for path, text in texts_changed_by_fix(texts, bug, style).items()
        ]
        if calls and task.is_new_proposal(calls):
            return DemoReply(
                _quote_last_feedback(task, "So this proposal is different.") + _explain_fix(task, bug, style), calls
            )
    return make_question_instead_of_fix(task)


def _explain_fix(task: DemoTaskWithTurns, bug: TideBugLocation, style: TideBugFixVariant) -> str:
    """Return the diagnosis for a first proposal, else the difference from the plain fix."""
    if task.feedback and (apart := style.describe(bug)):
        return apart
    unused = f" `{bug.tides}` doesn't use it at all: it steps by a flat 12 and 6 hours." if bug.tides else ""
    return f"{WORDING['diagnosis'].format(**asdict(bug))}{unused}"


def _next_reads(task: DemoTaskWithTurns, paths: list[str]) -> DemoReply | None:
    """Return the next reads: tests, then what they import, then other code; None when enough was read."""
    findings = task.results_of_turn
    code = [path for path in paths if path.endswith(".py")]
    tests = [path for path in code if PurePosixPath(path).name.startswith("test_")][: _MAX_FILES // 2]
    if calls := findings.calls_to_read(tests):
        return DemoReply("The tests say what is expected, so I begin with them.", calls)
    left = _MAX_FILES - len(findings.asked)
    if left <= 0 or ((bug := find_tide_bug(findings.texts)) and bug.tides):
        return None
    modules = re.findall(r"^(?:from|import) ([\w.]+)", "\n".join(findings.texts.values()), re.MULTILINE)
    endings = tuple(f"{module.replace('.', '/')}.py" for module in modules)
    if calls := findings.calls_to_read(path for path in code if path.endswith(endings)):
        return DemoReply("Now the modules that they use.", calls[:left])
    rest = findings.calls_to_read(path for path in code if not path.endswith("__init__.py"))
    return DemoReply("That is not where it is. I read on.", rest[:left]) if rest else None


_READ_BESIDE_AGENTS = ("tests/test_tides.py", "tideline/moon.py", "tideline/tides.py")


def propose_with_other_agents(task: DemoTaskWithTurns, agents: ScriptedDemoAgents | None) -> DemoReply:
    """Let two other agents propose, and add a proposal: the fix if the bug is there, else a test."""
    words: dict[str, str] = WORDING["with_agents"]
    if agents is None:
        return DemoReply(words["elsewhere"])
    if task.feedback:
        return DemoReply(_quote_last_feedback(task, words["not_again"]).rstrip())
    if not task.turn.steps:
        if agents.have_proposed:
            return DemoReply(words["again"])
        return DemoReply(words["call"], task.results_of_turn.calls_to_read(_READ_BESIDE_AGENTS))
    texts, summary = task.results_of_turn.texts, _FIX_TEXT["test_summary"]
    test, text = _READ_BESIDE_AGENTS[0], texts.get(_READ_BESIDE_AGENTS[0], "")
    if bug := find_tide_bug(texts):
        after, summary = texts_changed_by_fix(texts, bug, TideBugFixVariant()), _FIX_SUMMARY
    else:
        after = {test: text.rstrip("\n") + _FIX_TEXT["test"]} if text and _FIX_TEXT["test"] not in text else {}
    calls = [_make_edit_call(task, path, text, summary) for path, text in after.items()]
    proposals = [
        f"{title} proposes **{name}**" if name else words["refused"].format(title=title)
        for title, name in agents.propose_edits().items()
    ]
    told = f"{join_with_and(proposals)}."
    return DemoReply(f"{told} {words['added']}" if calls else f"{told}\n\n{words['waits']}", calls)


def make_reply_quoting_agents_decisions(agents: ScriptedDemoAgents | None) -> DemoReply:
    """Get the decisions that signoff delivers to the other agents, and return a reply that quotes them."""
    words: dict[str, str] = WORDING["with_agents"]
    if agents is None:
        return DemoReply(words["elsewhere"])
    parts = [
        f"{words['told'].format(title=title)}\n\n{_quote(text)}" for title, text in agents.read_decisions().items()
    ]
    return DemoReply("\n\n".join([*parts, words["goes_on"]]) if parts else words["untold"])
