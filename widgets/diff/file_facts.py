"""What is said of a file in one line: its sign, its name, and what an approval would do to it."""

from rich.cells import cell_len

from app.proposals.attention.reason import ReasonKind
from app.proposals.models import FileChange, FileDiff, HunkState, Op
from app.proposals.remarks import mode_words
from widgets.diff.cells import display
from widgets.diff.scene import Scene

_OPS = {
    Op.CREATE: ("+", "new file"),
    Op.EDIT: ("~", ""),
    Op.DELETE: ("-", "deleted"),
    Op.RENAME: ("→", "renamed"),
    Op.MODE: ("±", ""),
}

_LAST = {ReasonKind.LOCK: "lock file", ReasonKind.GENERATED: "generated"}
KINDS = {kind: number for number, kind in enumerate(ReasonKind)}
"""The gravest first."""

Fact = tuple[str, str]
"""Safe text and its component class."""


def file_sign(change: FileChange) -> Fact:
    """What happens to the file, as one character."""
    glyph = _OPS[change.op][0]
    return glyph, {"+": "diff--file-added", "-": "diff--file-removed"}.get(glyph, "diff--file")


def file_name(change: FileChange, room: int) -> str:
    """Its name, and the old one if it is renamed; the end of it, if there is no room."""
    name = display(change.path).text
    if change.op is Op.RENAME and change.old_path:
        name = f"{display(change.old_path).text} → {name}"
    return name if cell_len(name) <= room else f"…{_last_cells(name, room - 1)}"


def mark(diff: FileDiff) -> str:
    """A sign for a file with something in it that deserves eyes, as wide as the blank for the others."""
    return "!" if any(reason.kind.marks for reason in diff.reasons) else " "


def first_reason(diff: FileDiff) -> list[Fact]:
    """Why it is marked, in words: the gravest reason, and how many more there are."""
    marks = sorted((reason for reason in diff.reasons if reason.kind.marks), key=lambda reason: KINDS[reason.kind])
    more = f" and {len(marks) - 1} more" if len(marks) > 1 else ""
    return [(f"{display(marks[0].words).text}{more}", "diff--file-warning")] if marks else []


def file_facts(diff: FileDiff, scene: Scene) -> list[Fact]:
    """What stands at the right of a name: hunks, what kind of change it is, and the counts of what is chosen."""
    change = diff.change
    facts: list[Fact] = []
    if diff.stands_last:
        facts.append((_LAST[diff.reasons[0].kind], "diff--file-quiet"))
    added, removed = change.added, change.removed
    # Only where something is left out are the hunks gone through: there may be many, and this is drawn often.
    choosing = scene.undecided and bool(scene.left_out)
    waiting = [hunk for hunk in change.hunks if hunk.state is HunkState.PENDING] if choosing else []
    chosen = [hunk for hunk in waiting if hunk.id not in scene.left_out]
    if len(chosen) < len(waiting):
        facts.append((f"{len(chosen)} of {len(waiting)} hunks", "diff--file-warning"))
        added, removed = sum(hunk.new_count for hunk in chosen), sum(hunk.old_count for hunk in chosen)
    elif len(change.hunks) > 1:
        facts.append((f"{len(change.hunks)} hunks", "diff--file-quiet"))
    if word := _OPS[change.op][1]:
        facts.append((word, "diff--file-quiet"))
    if mode := mode_words(change):
        facts.append((mode, "diff--file-warning"))
    if added:
        facts.append((f"+{added:,}", "diff--file-added"))
    if removed:
        facts.append((f"-{removed:,}", "diff--file-removed"))
    return facts


def _last_cells(text: str, width: int) -> str:
    """The end of a text, at most `width` cells."""
    while cell_len(text) > width:
        text = text[1:]
    return text
