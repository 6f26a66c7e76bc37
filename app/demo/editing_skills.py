"""The skills that propose edits: fix, rename, document, move, delete."""

import re
from dataclasses import asdict
from pathlib import PurePosixPath

from app.demo.proposing import Variant, propose, propose_once
from app.demo.rewriting import documented, renamings
from app.demo.task import Task
from app.demo.tide_fix import FixStyle, TideBug, find_bug, mended, styles
from app.demo.words import WORDS, NewCall, Reply, quoted, ticked

_MOST_FILES = 12
"""Files read in search of a bug."""
_SUMMARY = "Keep the moon's time: a lunar day is 24 h 50 min"
_SILENT = "Some functions say nothing of themselves."
_FIRST = "This is a single one, so that you can see the style first."
_DOCUMENT = "Add the missing docstrings"


def fix(task: Task) -> Reply:
    """Find the bug that the tests complain of, and mend it."""
    if task.feedback and (known := find_bug(task.earlier_findings.texts)):
        if calls := task.findings.readings(filter(None, (known.moon, known.tides, known.test))):
            return Reply("I read the files again before I change the proposal.", calls)
    elif task.listed is None:
        return Reply("I'll look at what is here first.", [NewCall("list_files", {})])
    elif step := _next_reading(task, task.listed):
        return step
    texts = task.findings.texts
    if (bug := find_bug(texts)) is None:
        return Reply(f"I read {ticked(list(texts)) or 'nothing'} and see nothing that I can mend. {WORDS['no_bug']}")
    variants = (
        Variant(_told(task, bug, style), mended(texts, bug, style), _SUMMARY) for style in styles(task.feedback, bug)
    )
    return propose(task, variants)


def _told(task: Task, bug: TideBug, style: FixStyle) -> str:
    """What a fix is about: the diagnosis the first time, later only what sets it apart."""
    if task.feedback and (apart := style.told(bug)):
        return apart
    unused = f" `{bug.tides}` doesn't use it at all: it steps by a flat 12 and 6 hours." if bug.tides else ""
    return f"{WORDS['diagnosis'].format(**asdict(bug))}{unused}"


def _next_reading(task: Task, paths: list[str]) -> Reply | None:
    """Read the tests, then what they import, then other code; None when enough was read."""
    findings = task.findings
    code = [path for path in paths if path.endswith(".py")]
    tests = [path for path in code if PurePosixPath(path).name.startswith("test_")][: _MOST_FILES // 2]
    if calls := findings.readings(tests):
        return Reply("The tests say what is expected, so I begin with them.", calls)
    left = _MOST_FILES - len(findings.asked)
    if left <= 0 or ((bug := find_bug(findings.texts)) and bug.tides):
        return None
    modules = re.findall(r"^(?:from|import) ([\w.]+)", "\n".join(findings.texts.values()), re.MULTILINE)
    endings = tuple(f"{module.replace('.', '/')}.py" for module in modules)
    if calls := findings.readings(path for path in code if path.endswith(endings)):
        return Reply("Now the modules that they use.", calls[:left])
    rest = findings.readings(path for path in code if not path.endswith("__init__.py"))
    return Reply("That is not where it is. I read on.", rest[:left]) if rest else None


def rename(task: Task) -> Reply:
    """Rename a word wherever it occurs."""
    old, found = task.intent.old, task.earlier_findings
    if found.matches is None:
        pattern = {"pattern": rf"\b{re.escape(old)}\b", "regex": True}
        return Reply(f"Where does `{old}` occur?", [NewCall("search_text", pattern)])
    if found.search_error:
        return Reply(f"The search failed, so I leave it:\n\n{quoted(found.search_error)}")
    paths = list(dict.fromkeys(path for path, _, _ in found.matches))
    if not paths:
        return Reply(f"`{old}` occurs nowhere in the workspace, so there is nothing to rename.")
    if calls := task.findings.readings(paths):
        files = "one file" if len(paths) == 1 else f"{len(paths)} files"
        return Reply(f"In {files}. I read before I write.", calls)
    sources = task.findings.read(paths)
    return propose(task, renamings(old, task.intent.new, sources, task.feedback))


def add_docstrings(task: Task) -> Reply:
    """Add the docstrings that are missing in the named files, or in all of the workspace's code."""
    paths = [path for path in task.intent.paths if path.endswith(".py")]
    if not paths:
        if task.listed is None:
            return Reply("I look for files without docstrings.", [NewCall("list_files", {})])
        paths = [path for path in task.listed if path.endswith(".py") and "test" not in path][:_MOST_FILES]
    if calls := task.findings.readings(paths):
        return Reply("I read before I write.", calls)
    sources = task.findings.read(paths)
    try:
        variants = [
            Variant(told, {path: documented(text, first_only) for path, text in sources.items()}, _DOCUMENT)
            for told, first_only in ((_SILENT, False), (f"{_SILENT} {_FIRST}", True))
        ]
    except (SyntaxError, ValueError) as error:
        return Reply(f"I can't add docstrings, because Python can't parse the file: {error}.")
    return propose(task, variants)


def move(task: Task) -> Reply:
    """Rename a file."""
    old, new = task.intent.old, task.intent.new
    call = NewCall("rename_file", {"path": old, "new_path": new, "summary": f"Move {old}"})
    return propose_once(task, call, f"`{old}` moves to `{new}`.")


def delete(task: Task) -> Reply:
    """Delete a file, after a look at it."""
    path = task.intent.paths[0]
    if calls := task.findings.readings([path]):
        return Reply("I look at it before I propose to delete it.", calls)
    return propose_once(task, NewCall("delete_file", {"path": path, "summary": f"Delete {path}"}), f"`{path}` goes.")
