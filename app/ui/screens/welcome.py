"""What the chat shows before anything was said: what signoff is for, and the first keys."""

from collections.abc import Mapping, Sequence

from textual.content import Content

from app.keymap import first_key
from app.text.safe_text import visible

_COLUMN = 12


def welcome(folder: str, keymap: Mapping[str, str], *, demo: bool = False, wide: str = "") -> Sequence[Content]:
    """The lines, each a sentence or a key and what it does.

    Args:
        folder: the workspace's name.
        keymap: the user's.
        demo: whether the demo model answers, which knows its sample repository only.
        wide: what the workspace is, where it is more than a project.
    """

    def key(action_id: str) -> str:
        return first_key(action_id, keymap)

    def row(keys: str, *words: str | tuple[str, str]) -> Content:
        return Content.assemble((keys.ljust(_COLUMN), "bold $text-accent"), *words)

    decide: list[str | tuple[str, str]] = ["then  "]
    for action_id, word in (("approve", "approve"), ("deny", "deny"), ("request_changes", "request changes")):
        decide += [(key(f"review.{action_id}"), "bold $text-accent"), f" {word}  "]
    return (
        Content.assemble(("signoff", "bold $text-accent"), (f" · {visible(folder, keep='')}", "$foreground 65%")),
        Content(""),
        Content("The model proposes, you sign off."),
        Content("Nothing on disk changes before you approve it."),
        *([Content.assemble((f"This is {wide}: the model can read all of it.", "$text-warning"))] if wide else []),
        Content(""),
        *([row("Try", "fix the failing tests")] if demo else []),
        row("@", "mention a file"),
        row("/", "commands, such as /sessions and /model"),
        row(key("app.focus_diff"), "read what the model wants to change"),
        row(key("app.focus_approvals"), *decide),
        row(key("app.help"), "all keys"),
    )
