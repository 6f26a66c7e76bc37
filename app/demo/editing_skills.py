"""Demo skills that propose edits: fix, rename, document, move, delete."""

import ast
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from difflib import SequenceMatcher
from pathlib import PurePosixPath
from typing import Any

from app.demo.demo_conversation import DemoTask
from app.demo.demo_words import PATH, WORDS, DemoReply, NewCall, code_list, fenced_code

_CONSTANT = re.compile(r"^(?P<name>\w*LUNAR\w*) = timedelta\(hours=24(?P<rest>, minutes=50)?\)$", re.MULTILINE)
_FLAT_STEP = re.compile(r"timedelta\(hours=(12|6)\)")
_CAPITALS = re.compile(r"\b[A-Z][A-Z0-9]*_[A-Z0-9_]*[A-Z0-9]\b")
_WAYS: dict[str, dict[str, str]] = WORDS["fix"]
_TEXT: dict[str, str] = WORDS["fix_text"]


@dataclass(frozen=True, slots=True)
class TideBug:
    """The bug of the sample: the constant for the lunar day, the file that uses flat hours, and a test."""

    constant: str
    moon: str
    tides: str
    """Empty if none does."""
    test: str
    """Empty if none was read."""


@dataclass(frozen=True, slots=True)
class FixStyle:
    """How to mend it."""

    ways: frozenset[str] = frozenset()
    """What the fix has besides: keys of `fix` in words.toml."""
    name: str = "TIDAL_PERIOD"
    """What half a lunar day is called, if it gets a name."""
    only: str = ""
    """Leave every other file alone."""

    def told(self, bug: TideBug) -> str:
        """Return how this fix differs from the plain one."""
        facts = {**asdict(bug), "name": self.name, "only": self.only}
        return " ".join(way["told"].format(**facts) for key, way in _WAYS.items() if key in self.ways)


def find_bug(sources: Mapping[str, str]) -> TideBug | None:
    """The bug in `sources` (path to text), or None if it isn't there, or no longer."""
    found = next(((path, match) for path, text in sources.items() if (match := _CONSTANT.search(text))), None)
    if found is None:
        return None
    moon, match = found
    code = [path for path in sources if path.endswith(".py") and not _is_test(path) and path != moon]
    tides = next((path for path in code if _FLAT_STEP.search(sources[path])), "")
    test = next((path for path in sources if _is_test(path) and "high_waters(" in sources[path]), "")
    return TideBug(match["name"], moon, tides, test) if tides or not match["rest"] else None


def styles(feedback: Sequence[str], bug: TideBug) -> Iterator[FixStyle]:
    """Ways to mend it, best first: what the feedback asks for, then variations of it."""
    asked = FixStyle()
    for words in feedback:
        asked = _follow(words, asked, bug)
    yield asked
    for more in ({"name", "comment"}, {"name"}, {"comment"}, {"docstring"}, {"comment", "docstring"}):
        yield replace(asked, ways=asked.ways - {"small"} | more)
    yield replace(asked, ways=asked.ways - {"comment", "docstring"})
    if bug.test:
        yield replace(asked, ways=asked.ways - {"small"} | {"name", "comment", "docstring", "test"})
    yield FixStyle(frozenset({"small"}))


def _follow(words: str, style: FixStyle, bug: TideBug) -> FixStyle:
    """`style`, changed as one piece of feedback says; what the words don't speak of stays, but for being small."""
    asked, refused = set[str](), set[str]()
    for key, way in _WAYS.items():
        no = r"(?P<no>(?:no|not|without|don't|drop|remove)\b[^.;,\n]{0,16})?"
        if way["asked"] and (found := re.search(rf"\b{no}\b(?:{way['asked']})\b", words, re.IGNORECASE)):
            (refused if found["no"] else asked).add(key)
    capitals = [name for name in _CAPITALS.findall(words) if name != bug.constant]
    if capitals or "name" in asked:
        asked = asked - {"small"} | {"name"}
    ways = style.ways - {"small", "only"} - refused | asked - (set() if bug.test else {"test"})
    files = [path for path in PATH.findall(words) if path.endswith(".py")]
    only = next((path for path in (bug.moon, bug.tides) for file in files if path and path.endswith(file)), "")
    if "small" in ways:
        return FixStyle(ways - {"small", "name"} | {"only"}, only=only) if only else FixStyle(ways - {"name"})
    return FixStyle(ways, capitals[0] if capitals else style.name)


def mended(sources: Mapping[str, str], bug: TideBug, style: FixStyle) -> dict[str, str]:
    """The files that the fix changes, with their new text."""
    after = {bug.moon: _mended_moon(sources[bug.moon], bug, style)}
    if bug.tides:
        after[bug.tides] = _mended_tides(sources[bug.tides], bug, style)
    if "test" in style.ways:
        after[bug.test] = sources[bug.test].rstrip("\n") + _TEXT["test"]
    return {path: text for path, text in after.items() if text != sources[path] and style.only in ("", path)}


def _mended_moon(text: str, bug: TideBug, style: FixStyle) -> str:
    lines = [_TEXT["comment"]] if "comment" in style.ways else []
    lines.append(f"{bug.constant} = timedelta(hours=24, minutes=50)")
    documented = "docstring" in style.ways
    lines += [_TEXT["docstring"]] if documented else []
    if "name" in style.ways and style.name not in text:
        lines += ["", f"{style.name} = {bug.constant} / 2"]
        lines += [_TEXT["name_docstring"]] if documented else []
    return _CONSTANT.sub("\n".join(lines), text, count=1)


def _mended_tides(text: str, bug: TideBug, style: FixStyle) -> str:
    name = style.name if "name" in style.ways else bug.constant
    whole, half = (name, f"{name} / 2") if "name" in style.ways else (f"{name} / 2", f"{name} / 4")
    if in_place := style.ways & {"small", "only"}:
        whole, half = "timedelta(hours=12, minutes=25)", "timedelta(hours=6, minutes=12, seconds=30)"
    text = text.replace("timedelta(hours=12)", whole).replace("timedelta(hours=6)", half)
    if "comment" in style.ways:
        step = re.compile(rf"^( *)(.*= {re.escape(whole)})$", re.MULTILINE)
        text = step.sub(rf"\1{_TEXT['step_comment']}\n\1\2", text)
    module = bug.moon.removeprefix("src/").removesuffix(".py").replace("/", ".")
    return text if in_place else _with_import(text, f"from {module} import {name}")


def _with_import(text: str, statement: str) -> str:
    """`text` with `statement` among its imports, in alphabetical order where they have one."""
    imports = [line for line in text.split("\n") if line.startswith(("from ", "import "))]
    siblings = [line for line in imports if line.startswith(statement.split(".")[0] + ".")]
    later = next((line for line in siblings if line > statement), "")
    if statement in imports or not imports:
        return text if imports else f"{statement}\n{text}"
    place = later or (siblings or imports)[-1]
    return text.replace(place, f"{statement}\n{place}" if later else f"{place}\n{statement}", 1)


def _is_test(path: str) -> bool:
    return "tests" in PurePosixPath(path).parts or PurePosixPath(path).name.startswith("test_")


@dataclass(frozen=True, slots=True)
class EditVariant:
    """One way to carry out a request."""

    told: str
    """What is said with it."""
    after: Mapping[str, str]
    """Path to new text, of the files that it changes; the others may be left out or be as they are."""
    summary: str
    """One line, for the proposal."""


def propose(task: DemoTask, variants: Iterable[EditVariant]) -> DemoReply:
    """The first of `variants` that changes something and was not proposed before."""
    changes_something = False
    for variant in variants:
        calls = [
            NewCall("edit_file", _arguments(task, path, text, variant.summary))
            for path, text in variant.after.items()
            if text != task.findings.texts[path]
        ]
        changes_something = changes_something or bool(calls)
        if calls and task.is_new(calls):
            return _proposed(task, calls, variant.told)
    if not changes_something:
        return DemoReply("I read it, and there is nothing left to change.")
    return ask_for_another_way(task)


def propose_once(task: DemoTask, call: NewCall, told: str) -> DemoReply:
    """Propose a single call; after a denial ask what would be better, for there is no second way."""
    return _proposed(task, [call], told) if task.is_new([call]) else ask_for_another_way(task)


def ask_for_another_way(task: DemoTask) -> DemoReply:
    """A question instead of one more proposal."""
    told = _cited(task, "Before I propose the next thing, I ask.").rstrip()
    return DemoReply(told, [NewCall("ask_user", {"question": WORDS["another_way"]})])


def _proposed(task: DemoTask, calls: list[NewCall], told: str) -> DemoReply:
    return DemoReply(_cited(task, "So this proposal is different.") + told, calls)


def _cited(task: DemoTask, then: str) -> str:
    """The user's last feedback, quoted, and what follows from it."""
    if not task.feedback:
        return ""
    quoted = "\n".join(f"> {line}".rstrip() for line in task.feedback[-1].splitlines())
    return f"You wrote:\n\n{quoted}\n\n{then} "


def _arguments(task: DemoTask, path: str, after: str, summary: str) -> dict[str, Any]:
    arguments = {"path": path, "edits": edits_between(task.findings.texts[path], after), "summary": summary}
    version = task.findings.versions.get(path)
    return {**arguments, "version": version} if version else arguments


def edits_between(before: str, after: str) -> list[dict[str, str]]:
    """The edits of an `edit_file` call that turn `before` into `after`.

    They have as much context as it takes for each `old` to occur just once in `before`.
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
    """Whether `part` begins at one place of `text` only; `str.count` would miss places that overlap."""
    return text.find(part, text.find(part) + 1) < 0


_PROSE = (".md", ".rst", ".txt", ".toml")
_NEW_NAME = re.compile(r"`([A-Za-z_]\w*)`|\b(?:call|name)(?:d|ed)? it\s+[\"']?([A-Za-z_]\w*)", re.IGNORECASE)
_LEAVE = re.compile(r"\b(?:not|leave|without|except|skip|don't touch)\b[^.\n]*", re.IGNORECASE)
_ONLY = re.compile(r"\bonly\b", re.IGNORECASE)


def renamings(old: str, new: str, sources: Mapping[str, str], feedback: Sequence[str]) -> Iterator[EditVariant]:
    """Ways to rename a word in `sources`, best first: what the feedback asks for, then without what is prose."""
    leave: set[str] = set()
    for words in feedback:
        names = [name for groups in _NEW_NAME.findall(words) for name in groups if name not in ("", old)]
        new = names[0] if names else new
        named = {path for path in sources if PurePosixPath(path).name in words}
        if _ONLY.search(words):
            leave |= set(sources) - named if named else set()
        elif found := _LEAVE.search(words):
            leave |= named | {path for path in sources if "test" in path and "test" in found[0]}
    word = re.compile(rf"(?<!\w){re.escape(old)}(?!\w)")
    after = {path: word.sub(lambda _: new, text) for path, text in sources.items()}
    for left in (leave, leave | {path for path in sources if path.endswith(_PROSE)}):
        told = f" It leaves out {code_list(sorted(left))}." if left else ""
        taken = {path: text for path, text in after.items() if path not in left}
        yield EditVariant(f"`{old}` becomes `{new}`.{told}", taken, f"Rename {old} to {new}")


_FunctionOrClass = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


def documented(text: str, first_only: bool) -> str:
    """`text` with a docstring in every top-level function and class that has none, or just in the first.

    Raises SyntaxError or ValueError if it isn't Python.
    """
    lines = text.splitlines(keepends=True)
    nodes = [node for node in ast.parse(text).body if isinstance(node, _FunctionOrClass)]
    missing = [node for node in nodes if ast.get_docstring(node) is None and _has_own_lines(node, lines)]
    for node in reversed(missing[:1] if first_only else missing):
        first = node.body[0]
        lines.insert(first.lineno - 1, _docstring(node, " " * first.col_offset))
    return "".join(lines)


def _has_own_lines(node: _FunctionOrClass, lines: list[str]) -> bool:
    """Whether the body begins below the line of the name."""
    return not lines[node.body[0].lineno - 1][: node.body[0].col_offset].strip()


def _docstring(node: _FunctionOrClass, indent: str) -> str:
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", "_", node.name).strip("_").lower().replace("_", " ")
    if isinstance(node, ast.ClassDef):
        return f'{indent}"""The {words}."""\n'
    arguments = [argument for argument in node.args.args if argument.arg not in ("self", "cls")]
    names = code_list([argument.arg for argument in arguments])
    sentence = f"Return the {words}" + (f" for {names}" if names else "")
    if words.startswith("to ") and arguments:
        sentence = f"Return `{arguments[0].arg}` in {words.removeprefix('to ')}"
    return f'{indent}"""{sentence}."""\n'


_MOST_FILES = 12
"""Files read in search of a bug."""
_SUMMARY = "Keep the moon's time: a lunar day is 24 h 50 min"
_SILENT = "Some functions say nothing of themselves."
_FIRST = "This is a single one, so that you can see the style first."
_DOCUMENT = "Add the missing docstrings"


def fix(task: DemoTask) -> DemoReply:
    """Find the bug that the tests complain of, and mend it."""
    if task.feedback and (known := find_bug(task.earlier_findings.texts)):
        if calls := task.findings.readings(filter(None, (known.moon, known.tides, known.test))):
            return DemoReply("I read the files again before I change the proposal.", calls)
    elif task.listed is None:
        return DemoReply("I'll look at what is here first.", [NewCall("list_files", {})])
    elif step := _next_reading(task, task.listed):
        return step
    texts = task.findings.texts
    if (bug := find_bug(texts)) is None:
        return DemoReply(
            f"I read {code_list(list(texts)) or 'nothing'} and see nothing that I can mend. {WORDS['no_bug']}"
        )
    variants = (
        EditVariant(_told(task, bug, style), mended(texts, bug, style), _SUMMARY)
        for style in styles(task.feedback, bug)
    )
    return propose(task, variants)


def _told(task: DemoTask, bug: TideBug, style: FixStyle) -> str:
    """What a fix is about: the diagnosis the first time, later only what sets it apart."""
    if task.feedback and (apart := style.told(bug)):
        return apart
    unused = f" `{bug.tides}` doesn't use it at all: it steps by a flat 12 and 6 hours." if bug.tides else ""
    return f"{WORDS['diagnosis'].format(**asdict(bug))}{unused}"


def _next_reading(task: DemoTask, paths: list[str]) -> DemoReply | None:
    """Read the tests, then what they import, then other code; None when enough was read."""
    findings = task.findings
    code = [path for path in paths if path.endswith(".py")]
    tests = [path for path in code if PurePosixPath(path).name.startswith("test_")][: _MOST_FILES // 2]
    if calls := findings.readings(tests):
        return DemoReply("The tests say what is expected, so I begin with them.", calls)
    left = _MOST_FILES - len(findings.asked)
    if left <= 0 or ((bug := find_bug(findings.texts)) and bug.tides):
        return None
    modules = re.findall(r"^(?:from|import) ([\w.]+)", "\n".join(findings.texts.values()), re.MULTILINE)
    endings = tuple(f"{module.replace('.', '/')}.py" for module in modules)
    if calls := findings.readings(path for path in code if path.endswith(endings)):
        return DemoReply("Now the modules that they use.", calls[:left])
    rest = findings.readings(path for path in code if not path.endswith("__init__.py"))
    return DemoReply("That is not where it is. I read on.", rest[:left]) if rest else None


def rename(task: DemoTask) -> DemoReply:
    """Rename a word wherever it occurs."""
    old, found = task.intent.old, task.earlier_findings
    if found.matches is None:
        pattern = {"pattern": rf"\b{re.escape(old)}\b", "regex": True}
        return DemoReply(f"Where does `{old}` occur?", [NewCall("search_text", pattern)])
    if found.search_error:
        return DemoReply(f"The search failed, so I leave it:\n\n{fenced_code(found.search_error)}")
    paths = list(dict.fromkeys(path for path, _, _ in found.matches))
    if not paths:
        return DemoReply(f"`{old}` occurs nowhere in the workspace, so there is nothing to rename.")
    if calls := task.findings.readings(paths):
        files = "one file" if len(paths) == 1 else f"{len(paths)} files"
        return DemoReply(f"In {files}. I read before I write.", calls)
    sources = task.findings.read(paths)
    return propose(task, renamings(old, task.intent.new, sources, task.feedback))


def add_docstrings(task: DemoTask) -> DemoReply:
    """Add the docstrings that are missing in the named files, or in all of the workspace's code."""
    paths = [path for path in task.intent.paths if path.endswith(".py")]
    if not paths:
        if task.listed is None:
            return DemoReply("I look for files without docstrings.", [NewCall("list_files", {})])
        paths = [path for path in task.listed if path.endswith(".py") and "test" not in path][:_MOST_FILES]
    if calls := task.findings.readings(paths):
        return DemoReply("I read before I write.", calls)
    sources = task.findings.read(paths)
    try:
        variants = [
            EditVariant(told, {path: documented(text, first_only) for path, text in sources.items()}, _DOCUMENT)
            for told, first_only in ((_SILENT, False), (f"{_SILENT} {_FIRST}", True))
        ]
    except (SyntaxError, ValueError) as error:
        return DemoReply(f"I can't add docstrings, because Python can't parse the file: {error}.")
    return propose(task, variants)


def move(task: DemoTask) -> DemoReply:
    """Rename a file."""
    old, new = task.intent.old, task.intent.new
    call = NewCall("rename_file", {"path": old, "new_path": new, "summary": f"Move {old}"})
    return propose_once(task, call, f"`{old}` moves to `{new}`.")


def delete(task: DemoTask) -> DemoReply:
    """Delete a file, after a look at it."""
    path = task.intent.paths[0]
    if calls := task.findings.readings([path]):
        return DemoReply("I look at it before I propose to delete it.", calls)
    return propose_once(task, NewCall("delete_file", {"path": path, "summary": f"Delete {path}"}), f"`{path}` goes.")
