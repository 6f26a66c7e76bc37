"""A proposal is looked through when it is staged: the reasons are found, and the order is fixed."""

from collections.abc import Collection, Iterator, Sequence

from app.proposals.attention.calls import new_calls
from app.proposals.attention.credentials import secrets
from app.proposals.attention.edited import EditedFile, LexingBudget
from app.proposals.attention.kinds import is_generated, lock_of, runs_by_itself
from app.proposals.attention.operators import turned_operators
from app.proposals.attention.order import by_need
from app.proposals.attention.reason import Reason, ReasonKind
from app.proposals.attention.removals import Added, added_lines, named_tests, removed_safeguards
from app.proposals.attention.request import not_named
from app.proposals.attention.swallowed import swallowed
from app.proposals.models import FileChange, Op, Proposal
from app.proposals.overlay import Contents
from app.proposals.text.document import Document
from app.right_of_way import giving_way
from app.text.deceiving_text import inspect
from app.workspace.secrets import certain_reason

_EXECUTABLE = 0o111
_SPECIAL = 0o7000


def looked_through(contents: Contents, proposal: Proposal, request: str = "") -> Proposal:
    """The proposal with what deserves eyes in it; an order that it has already is kept.

    Args:
        contents: Where the texts are.
        proposal: With its hunks.
        request: What the user asked for, in their words, as far as that is known.
    """
    budget = LexingBudget()
    files = [_edited(contents, change, budget) for change in giving_way(proposal.files)]
    known = (reason.path for reason in proposal.reasons if reason.kind is ReasonKind.UNASKED)
    unasked = not_named(request, [file.path for file in files]) if request else frozenset(known)
    reasons = tuple(reasons_in(files, unasked))
    return proposal.model_copy(update={"reasons": reasons, "order": proposal.order or by_need(files, reasons)})


def reasons_in(files: Sequence[EditedFile], unasked: Collection[str] = ()) -> Iterator[Reason]:
    """All reasons, file by file; `unasked` are the paths that the user's words leave out."""
    added = added_lines(files)
    tests = frozenset(name for file in files for _, name in named_tests(file.added, file.added_text))
    paths = [file.path for file in files]
    for file in giving_way(files):
        last = _stands_last(file)
        yield from last
        yield from _of_file(file, paths)
        if file.path in unasked and not last:
            yield Reason(kind=ReasonKind.UNASKED, path=file.path)
        if lock_of(file.path) is None:
            yield from secrets(file)
        if not last:
            yield from _of_code(file, added, tests)


def _of_code(file: EditedFile, added: Added, tests: frozenset[str]) -> Iterator[Reason]:
    yield from new_calls(file)
    yield from swallowed(file)
    yield from removed_safeguards(file, added, tests)
    yield from turned_operators(file)


def _of_file(file: EditedFile, paths: Collection[str]) -> Iterator[Reason]:
    """What is true of the file as a whole."""
    change, path = file.change, file.path
    if change.warnings:
        yield file.reason(ReasonKind.DECEIVES, (line for line in file.added if inspect(line.text)))
    if change.op is Op.DELETE:
        yield Reason(kind=ReasonKind.DELETED, path=path)
    if change.inexact:
        yield Reason(kind=ReasonKind.INEXACT, path=path)
    if more := _rights(change):
        yield Reason(kind=ReasonKind.MODE, path=path, names=(more,))
    if automation := runs_by_itself(path) or (runs_by_itself(change.old_path) if change.old_path else ""):
        yield Reason(kind=ReasonKind.AUTOMATION, path=path, names=(automation,))
    if change.op in (Op.CREATE, Op.RENAME) and certain_reason(path):
        yield Reason(kind=ReasonKind.SECRET, path=path, names=("a file for secrets",))
    manifest = lock_of(path)
    if manifest and change.op is Op.EDIT:
        folder = path.rpartition("/")[0]
        if (f"{folder}/{manifest}" if folder else manifest) not in paths:
            yield Reason(kind=ReasonKind.UNLOCKED, path=path, names=(path.rpartition("/")[2],))


def _stands_last(file: EditedFile) -> list[Reason]:
    """Why a file stands last, if it does."""
    if lock_of(file.path) is not None:
        return [Reason(kind=ReasonKind.LOCK, path=file.path)]
    generated = is_generated(file.path, file.old)
    return [Reason(kind=ReasonKind.GENERATED, path=file.path)] if generated else []


def _rights(change: FileChange) -> str:
    """What a file may do that it could not do before."""
    if change.result is None or change.links:
        return "a link" if change.links and change.result is not None else ""
    new = change.result.mode & ~(change.base.mode if change.base else 0)
    if new & _SPECIAL:
        return "run with other rights"
    if new & _EXECUTABLE and change.base is not None:
        return "executable"
    return "writable by all" if new & 0o002 else ""


def _edited(contents: Contents, change: FileChange, budget: LexingBudget) -> EditedFile:
    if change.binary or change.links:
        return EditedFile(change, (), (), budget)
    old, new = (Document(contents.get(version)).texts for version in (change.base, change.result))
    return EditedFile(change, old, new, budget)
