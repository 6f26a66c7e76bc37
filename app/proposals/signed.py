"""What of a change was signed before: the content that the record has approvals for, between git and the disk.

The approvals of a file that stand are made again, oldest first, on what git has of it. Where the user changed lines
between two approvals, only the approved ones are carried over, so that what comes of it holds no unsigned line.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Literal

from app.proposals.errors import MissingContent
from app.proposals.facts import LeftOut
from app.proposals.models import FileVersion, Proposal
from app.proposals.origin import OriginKind
from app.proposals.overlay import Contents, Overlay, undecided
from app.proposals.record import Entry, RecordedFile, RecordingStore
from app.proposals.staging import is_covered
from app.proposals.text.diff import diff
from app.proposals.text.document import Document
from app.proposals.text.signed_lines import Lines, carried, made, still_there
from app.sandbox.changes import Change, Leaf

_MODE = 0o644
"""Of a file whose mode an entry of an earlier version does not name."""


@dataclass(frozen=True, slots=True)
class Step:
    """A file before and after a decision."""

    proposal: str
    base: Leaf | None
    result: Leaf | None
    signed: bool = True
    """Whether it is an approval that stands; any other only tells which contents the file had."""


@dataclass(frozen=True, slots=True)
class Unsigned:
    """What is left of changes, and what was left out of them."""

    changes: tuple[Change, ...]
    """From what was signed to what there is."""
    left_out: tuple[LeftOut, ...] = ()


def left_to_stage(
    store: RecordingStore, contents: Contents, changes: Sequence[Change], over: Overlay | None = None
) -> Unsigned:
    """The changes without the hunks that nobody has to be asked for.

    Args:
        store: Has the record, and what waits.
        contents: Where the bytes are.
        changes: From what git has to what is on disk; or, with `over`, to what is in a commit.
        over: The workspace into which changes of a commit are merged: it may have some of them already.
    """
    paths = {change.path for change in changes}
    steps = _steps(store, contents, store.entries_on(paths), paths)
    left = _without("signed", changes, steps, over)
    if over is not None:
        return Unsigned(left.changes, (*left.left_out, *_there(changes, over)))
    paths = {change.path for change in left.changes}
    others = [each for each in store.waiting_on(paths) if each.on_disk and not is_covered(each, paths)]
    waiting = _without("waiting", left.changes, _pending_steps(contents, others))
    return Unsigned(waiting.changes, (*left.left_out, *waiting.left_out))


def nothing_to_stage(left_out: Iterable[LeftOut]) -> str:
    """That all was left out, and why."""
    found = list(left_out)
    lead = "all " if len(found) == 1 and found[0].hunks > 1 else ""
    ways = [
        *(["--all stages them"] if any(one.why == "signed" for one in found) else []),
        *(f"`signoff show {name}` shows it" for one in found if one.why == "waiting" for name in one.proposals[:1]),
    ]
    return f"Nothing to stage: {lead}{', '.join(one.sentence for one in found)}{''.join(f'; {way}' for way in ways)}."


def standing(entries: Iterable[Entry]) -> set[int]:
    """The numbers of the entries that approve something, and that no later decision has taken back."""
    decided: dict[str, list[Entry]] = {}
    for entry in entries:
        stack = decided.setdefault(entry.proposal, [])
        if entry.decision == "undone":
            stack.clear()
        elif entry.decision == "reopened":
            # An undo of what was written is `undone`; this takes back a denial, or that something on disk was kept.
            if stack and (not stack[-1].writes or entry.origin.kind is OriginKind.DISK):
                stack.pop()
        else:
            stack.append(entry)
    return {entry.number for stack in decided.values() for entry in stack if entry.writes}


def hunk_count(before: Leaf | None, after: Leaf | None) -> int:
    """How many hunks lie between two versions of a file; what is decided as a whole is one."""
    if before == after:
        return 0
    if before is None or after is None or not _is_text(before, after):
        return 1
    return len(diff(_lines(before), _lines(after))) or 1


def hunks_there(change: Change, there: Leaf | None) -> int:
    """How many hunks of a change another version of the file has, too."""
    if change.after == there:
        return hunk_count(change.before, change.after)
    if change.before is None or change.after is None or there is None:
        return 0
    if not _is_text(change.before, change.after, there):
        return 0
    base, one, other = _lines(change.before), _lines(change.after), _lines(there)
    return len(made(base, one) & made(base, other))


def _without(
    why: Literal["signed", "waiting"],
    changes: Sequence[Change],
    steps: Mapping[str, Sequence[Step]],
    over: Overlay | None = None,
) -> Unsigned:
    """The changes without what the steps have made; what `over` has of that anyway is not counted."""
    left: list[Change] = []
    names: set[str] = set()
    count = 0
    for change in changes:
        before, used = _signed_leaf(change.before, change.after, steps.get(change.path, ()))
        hunks = hunk_count(change.before, before)
        if hunks and over is not None:
            hunks -= hunks_there(Change(change.path, change.before, before), _leaf(over, change.path))
        if hunks:
            names |= used
            count += hunks
        if before != change.after:
            left.append(Change(change.path, before, change.after))
    by_number = sorted(names, key=lambda name: int(name[1:]))
    return Unsigned(tuple(left), (LeftOut(hunks=count, why=why, proposals=tuple(by_number)),) if count else ())


def _there(changes: Sequence[Change], over: Overlay) -> list[LeftOut]:
    """The hunks that the disk has already, and those that wait to be written."""
    disk = waiting = 0
    names: dict[str, None] = {}
    for change in changes:
        on_disk = hunks_there(change, _leaf(over.bare(), change.path))
        disk += on_disk
        if by := over.by(change.path):
            pending = hunks_there(change, _leaf(over, change.path)) - on_disk
            waiting += max(pending, 0)
            names |= dict.fromkeys(by if pending > 0 else ())
    found = [LeftOut(hunks=disk, why="there")] if disk else []
    return found + ([LeftOut(hunks=waiting, why="waiting", proposals=tuple(names))] if waiting else [])


def _leaf(over: Overlay, path: str) -> Leaf | None:
    """A file with all that waits; None also for one that can't be read."""
    with suppress(OSError):
        version, data = over.version(path), over.content(path)
        return Leaf(data, version.mode) if version is not None and data is not None else None
    return None


def _signed_leaf(git: Leaf | None, there: Leaf | None, steps: Sequence[Step]) -> tuple[Leaf | None, set[str]]:
    """What git has of a file with all that was signed of what is there, and the proposals that it was signed in."""
    start = _start(git, steps)
    at, names = git, set[str]()
    for step in steps[start or 0 :]:
        if step.signed and (after := _made_again(step, at, git)) != at:
            at, names = after, names | {step.proposal}
    at = _as_there(git, at, there, connected=start is not None)
    return (at, names) if at != git else (git, set())


def _start(git: Leaf | None, steps: Sequence[Step]) -> int | None:
    """The first step after what git has; None if no step began or ended with that."""
    for at, step in enumerate(steps):
        if _same_bytes(step.base, git):
            return at
        if _same_bytes(step.result, git):
            return at + 1
    return None


def _made_again(step: Step, now: Leaf | None, git: Leaf | None) -> Leaf | None:
    """What a step makes of a file that is not what it was then; the file as it is if it can't be told."""
    base, result = step.base, step.result
    if base is None or now is None:
        return result if base is now else now
    if _same_bytes(base, now) and base.is_link == now.is_link:
        if result is None or result.is_link or now.is_link:
            return result
        return Leaf(result.data, _merged_mode(base, now, result))
    if not _is_text(base, now, *([result] if result else [])):
        return now
    lines = carried(_lines(base), _lines(result) if result else [], _lines(now), _lines(git) if git else [])
    if result is None:
        return now if lines else None
    return Leaf(b"".join(lines), _merged_mode(base, now, result))


def _as_there(git: Leaf | None, signed: Leaf | None, there: Leaf | None, *, connected: bool) -> Leaf | None:
    """What was signed, without what the user has put back since to what git has.

    Args:
        git: What git has.
        signed: The same with all that was signed.
        there: What there is.
        connected: Whether an approval began or ended with what git has.
    """
    if there == git:
        return git
    if signed is None or there is None or git is None:
        if signed is None or there is None:
            return signed
        return Leaf(signed.data, _mode_like(there, signed))
    if not _is_text(git, signed, there):
        return Leaf(signed.data, _mode_like(there, signed)) if not signed.is_link else signed

    lines = still_there(_lines(git), _lines(signed), _lines(there), connected=connected)
    return Leaf(b"".join(lines), _mode_like(there, signed))


def _steps(
    store: RecordingStore, contents: Contents, entries: Sequence[Entry], paths: Collection[str]
) -> dict[str, list[Step]]:
    """By path what the record tells of each file, oldest first, as far as the contents are still kept."""
    stand = standing(entries)
    found: dict[str, list[Step]] = {}
    for entry in entries:
        for file in entry.files:
            if file.path in paths and (step := _step(store, contents, entry, file, signed=entry.number in stand)):
                found.setdefault(file.path, []).append(step)
    return found


def _step(
    store: RecordingStore, contents: Contents, entry: Entry, file: RecordedFile, *, signed: bool
) -> Step | None:
    base, result = (file.base_sha256, file.base_mode), (file.result_sha256, file.result_mode)
    if (file.base and not base[0]) or (file.result and not result[0]):
        # Earlier versions recorded of what was kept in part all that was on disk.
        proposal = store.proposal(entry.proposal)
        kept = [
            part
            for change in (proposal.files if proposal else ())
            for part in change.decisions
            if change.path == file.path and part.decision == entry.count and not part.old_path
        ]
        if not kept:
            return None
        base, result = _named(kept[0].base), _named(kept[0].left)
    if not base[0] and not result[0]:
        return None
    try:
        mode = int(base[1] or result[1] or f"{_MODE:o}", 8)
        versions = [
            Leaf(contents.get(FileVersion(sha256=name, size=0)), int(octal, 8) if octal else mode) if name else None
            for name, octal in (base, result)
        ]
    except MissingContent:
        return None
    return Step(entry.proposal, versions[0], versions[1], signed)


def _pending_steps(contents: Contents, proposals: Iterable[Proposal]) -> dict[str, list[Step]]:
    """By path what still waits of proposals of what is on disk."""
    found: dict[str, list[Step]] = {}
    for proposal in proposals:
        for change in filter(undecided, proposal.files):
            base, result = (
                Leaf(contents.get(version), version.mode) if version else None
                for version in (change.base, change.result)
            )
            if change.old_path:
                found.setdefault(change.old_path, []).append(Step(proposal.id, base, None))
                base = None
            found.setdefault(change.path, []).append(Step(proposal.id, base, result))
    return found


def _named(version: FileVersion | None) -> tuple[str, str]:
    return (version.sha256, f"{version.mode:o}") if version else ("", "")


def _same_bytes(one: Leaf | None, other: Leaf | None) -> bool:
    return one is other if one is None or other is None else one.data == other.data


def _merged_mode(base: Leaf, now: Leaf, result: Leaf) -> int:
    return now.mode if base.mode == result.mode else result.mode


def _mode_like(there: Leaf, signed: Leaf) -> int:
    """The mode of what there is, if git takes both for the same."""
    same = not (there.is_link or signed.is_link) and bool(there.mode & 0o100) == bool(signed.mode & 0o100)
    return there.mode if same else signed.mode


def _is_text(*leaves: Leaf) -> bool:
    return not any(leaf.is_link or Document(leaf.data).binary for leaf in leaves)


def _lines(leaf: Leaf) -> Lines:
    return Document(leaf.data).lines
