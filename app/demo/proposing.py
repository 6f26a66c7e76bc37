"""Turns a new version of files into a proposal that differs from every one that was denied."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from app.demo.reply import NewCall, Reply
from app.demo.rewriting import edits_between
from app.demo.task import Task


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
            return Reply(_cited(task, "So this proposal is different.") + variant.told, tuple(calls))
    if not changes_something:
        return Reply("I read it, and there is nothing left to change.")
    return ask_for_another_way(task)


def propose_once(task: Task, call: NewCall, told: str) -> Reply:
    """Propose a single call; after a denial ask what would be better, for there is no second way."""
    if task.is_new([call]):
        return Reply(_cited(task, "So this proposal is different.") + told, (call,))
    return ask_for_another_way(task)


def ask_for_another_way(task: Task) -> Reply:
    """A question instead of one more proposal."""
    question = {"question": "How should the change look? A name, a comment, a test, a smaller change: tell me which."}
    return Reply(_cited(task, "Before I propose the next thing, I ask.").rstrip(), (NewCall("ask_user", question),))


def _arguments(task: Task, path: str, after: str, summary: str) -> dict[str, object]:
    version = task.findings.versions.get(path)
    return {
        "path": path,
        "edits": edits_between(task.findings.texts[path], after),
        **({"version": version} if version else {}),
        "summary": summary,
    }


def _cited(task: Task, then: str) -> str:
    """The user's last feedback, quoted, and what follows from it."""
    if not task.feedback:
        return ""
    quoted = "\n".join(f"> {line}".rstrip() for line in task.feedback[-1].splitlines())
    return f"You wrote:\n\n{quoted}\n\n{then} "
