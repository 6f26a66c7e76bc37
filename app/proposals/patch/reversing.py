"""A patch the other way round, to tell one that was made of what is on disk: `git diff` of one's own work."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace

from app.proposals.draft import Draft
from app.proposals.errors import ProposalError
from app.proposals.held_files import Held
from app.proposals.locate.carry_over import ScriptLine, Step
from app.proposals.models import Op, Rung
from app.proposals.patch.parts import FilePatch, PatchHunk, ReadPatch, is_blob
from app.proposals.refusals import EditRefused
from app.sandbox.changes import Change, Leaf
from app.workspace.path_rules import WorkspaceError

_OTHER_STEP = {Step.KEEP: Step.KEEP, Step.INSERT: Step.REMOVE, Step.REMOVE: Step.INSERT}
_OTHER_OP = {Op.CREATE: Op.DELETE, Op.DELETE: Op.CREATE}


def made_of_disk(draft: Draft, patch: ReadPatch) -> bool:
    """Whether the disk holds all that the patch makes, going by the ids that git gives the contents."""
    parts = [part for part in patch.parts if not part.left_out]
    with suppress(EditRefused, WorkspaceError, OSError):
        return bool(parts) and all(_holds(draft, part) for part in parts)
    return False


def on_disk_already(draft: Draft, patch: ReadPatch) -> list[Change]:
    """What a patch changed, if it fits the disk exactly the other way round; nothing if it does not.

    Args:
        draft: An empty one over the disk alone.
        patch: As it was given.
    """
    parts = [part for part in reversed(patch.parts) if not part.left_out]
    try:
        draft.patch(ReadPatch(tuple(map(reversed_part, parts))))
    except (EditRefused, WorkspaceError, ProposalError, OSError):
        return []
    held = {path: each for path, each in draft.held.items() if each.changed}
    if any(match.rung is not Rung.EXACT for each in held.values() for match in each.matches):
        return []
    return [Change(path, _leaf(each), _found(each)) for path, each in sorted(held.items())]


def reversed_part(part: FilePatch) -> FilePatch:
    """The part that takes this one back, without the id of what it makes: a diff made with `-w` does not reach it."""
    return replace(
        part,
        path=part.old_path or part.path,
        old_path=part.path if part.old_path else "",
        op=_OTHER_OP.get(part.op, part.op),
        hunks=tuple(map(_reversed_hunk, part.hunks)),
        old_mode=part.new_mode,
        new_mode=part.old_mode,
        old_blob=part.new_blob,
        new_blob="",
        spelled_out=True,
    )


def _reversed_hunk(hunk: PatchHunk) -> PatchHunk:
    return replace(
        hunk, lines=tuple(_in_order(hunk.lines)), old_start=hunk.new_start, new_start=hunk.old_start, unended=False
    )


def _in_order(lines: Sequence[ScriptLine]) -> list[ScriptLine]:
    """The lines the other way round, in each run of changes the removed ones first, as patches have them."""
    found: list[ScriptLine] = []
    run: list[ScriptLine] = []
    for line in lines:
        if line.step is Step.KEEP:
            found += [*sorted(run, key=lambda each: each.step is Step.INSERT), line]
            run = []
        else:
            run.append(replace(line, step=_OTHER_STEP[line.step]))
    return found + sorted(run, key=lambda each: each.step is Step.INSERT)


def _holds(draft: Draft, part: FilePatch) -> bool:
    found = draft.look(part.path)
    return found is not None and is_blob(found[0], part.new_blob)


def _leaf(held: Held) -> Leaf | None:
    return None if held.data is None else Leaf(held.data, held.mode)


def _found(held: Held) -> Leaf | None:
    return None if held.base_data is None or held.base is None else Leaf(held.base_data, held.base.mode)
