"""The skills that propose edits: fix, rename, document, move, delete."""

import re
from collections.abc import Mapping
from pathlib import PurePosixPath

from app.demo.docstrings import docstring_styles, documented
from app.demo.proposing import Variant, propose, propose_once
from app.demo.renaming import renamed, renamings
from app.demo.reply import NewCall, Reply, quoted
from app.demo.task import Task
from app.demo.tide_fix import FixStyle, TideBug, find_bug, mended, styles

_MOST_FILES = 12
"""Files read in search of a bug."""


def fix(task: Task) -> Reply:
    """Find the bug that the tests complain of, and mend it."""
    texts = task.findings.texts
    if task.feedback and (known := find_bug(task.earlier_findings.texts)):
        again = [path for path in (known.moon, known.tides, known.test) if path]
        if calls := task.findings.readings(again):
            return Reply("I read the files again before I change the proposal.", tuple(calls))
    else:
        if task.listed is None:
            return Reply("I'll look at what is here first.", (NewCall("list_files", {}),))
        if step := _next_reading(task, task.listed):
            return step
    bug = find_bug(texts)
    if bug is None:
        return Reply(_nothing_found(texts))
    variants = (
        Variant(
            _told(bug, style, task), mended(texts, bug, style), "Keep the moon's time: a lunar day is 24 h 50 min"
        )
        for style in styles(task.feedback, bug)
    )
    return propose(task, variants)


def _told(bug: TideBug, style: FixStyle, task: Task) -> str:
    """What a fix is about: the diagnosis the first time, later only what sets it apart."""
    reasons = style.reasons(bug)
    return " ".join(reasons if task.feedback and reasons else [_diagnosis(bug), *reasons])


def _next_reading(task: Task, listed: list[str]) -> Reply | None:
    """Read the tests, then what they import, then other code; None when enough was read."""
    findings = task.findings
    code = [path for path in listed if path.endswith(".py")]
    tests = [path for path in code if PurePosixPath(path).name.startswith("test_")][: _MOST_FILES // 2]
    if calls := findings.readings(tests):
        return Reply("The tests say what is expected, so I begin with them.", tuple(calls))
    if (bug := find_bug(findings.texts)) and bug.tides:
        return None
    modules = re.findall(r"^(?:from|import) ([\w.]+)", "\n".join(findings.texts.values()), re.MULTILINE)
    endings = tuple(dict.fromkeys(f"{module.replace('.', '/')}.py" for module in modules))
    imported = [path for path in code if path.endswith(endings)] if endings else []
    if len(findings.asked) < _MOST_FILES and (calls := findings.readings(imported)):
        return Reply("Now the modules that they use.", tuple(calls[:_MOST_FILES]))
    if len(findings.asked) >= _MOST_FILES:
        return None
    rest = findings.readings(path for path in code if not path.endswith("__init__.py"))
    text = "That is not where it is. I read on."
    return Reply(text, tuple(rest[: _MOST_FILES - len(findings.asked)])) if rest else None


def _diagnosis(bug: TideBug) -> str:
    parts = [
        f"Found it: the tides keep the sun's time. `{bug.constant}` in `{bug.moon}` is a lunar day, "
        "and that takes **24 h 50 min**."
    ]
    if bug.tides:
        parts.append(f"`{bug.tides}` doesn't use it at all: it steps by a flat 12 and 6 hours.")
    return " ".join(parts)


def _nothing_found(texts: Mapping[str, str]) -> str:
    read = ", ".join(f"`{path}`" for path in texts) or "nothing"
    marks = [
        f"- `{path}:{number}` {line.strip()[:100]}"
        for path, text in texts.items()
        for number, line in enumerate(text.splitlines(), start=1)
        if re.search(r"\b(?:TODO|FIXME|XXX|HACK)\b", line)
    ]
    found = "\n\nThese lines ask for attention themselves:\n\n" + "\n".join(marks[:10]) if marks else ""
    return (
        f"I read {read} and see nothing that I can mend. I am a demo model and know one kind of bug, the one in my "
        f"own sample. If it was here, it is mended, or the fix awaits your decision.{found}"
    )


def rename(task: Task) -> Reply:
    """Rename a word wherever it occurs."""
    old = task.intent.old
    word = rf"\b{re.escape(old)}\b"
    found = task.earlier_findings
    if found.matches is None:
        return Reply(f"Where does `{old}` occur?", (NewCall("search_text", {"pattern": word, "regex": True}),))
    if found.search_error:
        return Reply(f"The search failed, so I leave it:\n\n{quoted(found.search_error)}")
    paths = list(dict.fromkeys(match.path for match in found.matches))
    if not paths:
        return Reply(f"`{old}` occurs nowhere in the workspace, so there is nothing to rename.")
    if calls := task.findings.readings(paths):
        files = "one file" if len(paths) == 1 else f"{len(paths)} files"
        return Reply(f"In {files}. I read before I write.", tuple(calls))
    sources = {path: task.findings.texts[path] for path in paths if path in task.findings.texts}
    cut = ["The search found more than it showed me, so it may occur elsewhere too."] if found.search_was_cut else []
    variants = (
        Variant(
            " ".join([f"`{old}` becomes `{way.new}`.", *way.reasons(), *cut]),
            renamed(sources, way),
            f"Rename {old} to {way.new}",
        )
        for way in renamings(old, task.intent.new, task.feedback, paths)
    )
    return propose(task, variants)


def add_docstrings(task: Task) -> Reply:
    """Add the docstrings that are missing in the named files, or in all of the workspace's code."""
    paths = [path for path in task.intent.paths if path.endswith(".py")]
    if not paths:
        if task.listed is None:
            return Reply("I look for files without docstrings.", (NewCall("list_files", {}),))
        paths = [path for path in task.listed if path.endswith(".py") and "test" not in path][:_MOST_FILES]
    if calls := task.findings.readings(paths):
        return Reply("I read before I write.", tuple(calls))
    sources = {path: task.findings.texts[path] for path in paths if path in task.findings.texts}
    try:
        variants = [
            Variant(
                " ".join(["Some functions say nothing of themselves.", *style.reasons()]),
                {path: documented(text, style) for path, text in sources.items()},
                "Add the missing docstrings",
            )
            for style in docstring_styles(task.feedback)
        ]
    except SyntaxError as error:
        return Reply(f"I can't add docstrings, because Python can't parse the file: {error}.")
    return propose(task, variants)


def move(task: Task) -> Reply:
    """Rename a file."""
    arguments = {"path": task.intent.old, "new_path": task.intent.new, "summary": f"Move {task.intent.old}"}
    return propose_once(task, NewCall("rename_file", arguments), f"`{task.intent.old}` moves to `{task.intent.new}`.")


def delete(task: Task) -> Reply:
    """Delete a file, after a look at it."""
    path = task.intent.paths[0]
    if calls := task.findings.readings([path]):
        return Reply("I look at it before I propose to delete it.", tuple(calls))
    call = NewCall("delete_file", {"path": path, "summary": f"Delete {path}"})
    return propose_once(task, call, f"`{path}` goes.")
