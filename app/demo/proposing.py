"""Turns a new version of files into a proposal that differs from every one that was denied."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any

from app.demo.task import Task
from app.demo.words import WORDS, NewCall, Reply


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to do what was asked."""

    told: str
    """What is said with it."""
    after: Mapping[str, str]
    """Path to new text, of the files that it changes; the others may be left out or be as they are."""
    summary: str
    """One line, for the proposal."""


def propose(task: Task, variants: Iterable[Variant]) -> Reply:
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
        return Reply("I read it, and there is nothing left to change.")
    return ask_for_another_way(task)


def propose_once(task: Task, call: NewCall, told: str) -> Reply:
    """Propose a single call; after a denial ask what would be better, for there is no second way."""
    return _proposed(task, [call], told) if task.is_new([call]) else ask_for_another_way(task)


def ask_for_another_way(task: Task) -> Reply:
    """A question instead of one more proposal."""
    told = _cited(task, "Before I propose the next thing, I ask.").rstrip()
    return Reply(told, [NewCall("ask_user", {"question": WORDS["another_way"]})])


def _proposed(task: Task, calls: list[NewCall], told: str) -> Reply:
    return Reply(_cited(task, "So this proposal is different.") + told, calls)


def _cited(task: Task, then: str) -> str:
    """The user's last feedback, quoted, and what follows from it."""
    if not task.feedback:
        return ""
    quoted = "\n".join(f"> {line}".rstrip() for line in task.feedback[-1].splitlines())
    return f"You wrote:\n\n{quoted}\n\n{then} "


def _arguments(task: Task, path: str, after: str, summary: str) -> dict[str, Any]:
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
