"""Quotes the text of files after a decision was applied.

Kept apart: the one place where a door gives out whole files.
"""

from app.proposals.models import HunkState, Proposal
from app.proposals.text.document import Document
from app.runtime.workspace import Runtime
from app.text.plural import plural
from app.workspace.path_rules import WorkspaceError
from app.workspace.secrets import secret_reason

QUOTED = 24_000
"""Characters of all files together."""


def resulting_text(runtime: Runtime, proposal: Proposal) -> str:
    """The text of the files that were written; empty if none was, or it was undone."""
    room = QUOTED
    parts: list[str] = []
    for change in proposal.files:
        states = {change.state, *(hunk.state for hunk in change.hunks)}
        if HunkState.APPLIED not in states or change.result is None:
            continue
        try:
            data = runtime.workspace.read(change.path)
        except (OSError, WorkspaceError):
            continue
        document = Document(data)
        if document.binary or secret_reason(change.path, data):
            continue
        texts = document.texts
        if sum(len(text) + 1 for text in texts) > room:
            parts.append(f"{change.path} has {plural(len(texts), 'line')} now; read what you need of it.")
            continue
        room -= sum(len(text) + 1 for text in texts)
        parts.append("\n".join([f"{change.path} reads now:", *texts]))
    return "\n\n".join(parts)
