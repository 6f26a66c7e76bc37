"""Words that tell the model about a decision: facts from the program, feedback as the user's own words."""

from collections.abc import Iterable, Sequence

from app.conversation.events import CallDenied, Decision, ProposalDecided
from app.proposals.values.decision_facts import FileStat, HunkOutcome, LineComment


def format_decision_facts(decided: ProposalDecided) -> str:
    """Return the facts of a decision for a system message: proposal, files, hunks, and what is on disk now.

    That the user's words follow is not among them: `SystemText.introduces` says it.
    """
    lines = [_headline(decided)]
    if decided.stale:
        lines.append(decided.stale)
    lines += format_hunks(decided.hunks, on_disk=decided.on_disk)
    if decided.still_pending and decided.decision is not Decision.EDITED:
        lines.append(f"The other hunks of {decided.proposal} still await the user's decision.")
    return "\n".join(lines)


def format_denial(denied: CallDenied) -> str:
    """Return the fact of a denied call, for a system message before the user's words on it."""
    return _CALLS_DENIED[denied.asked].format(subject=denied.subject)


def format_feedback(decided: ProposalDecided) -> str:
    """Return the user's feedback and line comments, whole, as a user message; empty if there are none."""
    parts = [decided.feedback] if decided.feedback.strip() else []
    parts += [_comment(comment) for comment in decided.comments]
    return "\n\n".join(parts)


def format_files(files: Iterable[FileStat]) -> str:
    """`a.py (edit, +3 -1), b.py (create, +10 -0)`."""
    return ", ".join(f"{file.path} ({file.op}, +{file.added} -{file.removed})" for file in files)


_HEADLINES = {
    Decision.APPROVED: "The user approved proposal {id}. It is written to disk now",
    Decision.PARTLY_APPROVED: "The user approved proposal {id} in part. Only the hunks that landed are on disk; "
    "build on the files as they are now",
    Decision.DENIED: "The user denied proposal {id}. Nothing of it was written",
    Decision.UNDONE: "The user undid proposal {id}. Its changes are no longer on disk",
    Decision.REDONE: "The user applied proposal {id} again. Its changes are on disk",
    Decision.REOPENED: "The user took back the denial of proposal {id}. It awaits the user's decision again, and "
    "nothing of it is on disk",
    Decision.EDITED: "The user changed the proposed text of {id} by hand. It awaits approval in the new form",
}
_CALLS_DENIED = {
    "command": "The user did not allow the command `{subject}`. It did not run.",
    "server": "The user did not allow the call of {subject}. It did not run.",
    "secret": "The user did not let you see {subject}.",
    "changes": "The user had the changes of `{subject}` thrown away. Nothing was staged.",
    "ignored": "The user had what `{subject}` wrote of what git ignores thrown away.",
}
_HUNKS_DENIED = "The user denied hunks of proposal {id}. They were not written"
_HUNKS_REOPENED = "The user took back the denial of hunks of proposal {id}. They await the user's decision again"


_ON_DISK_HEADLINES = {
    Decision.APPROVED: "The user keeps what proposal {id} shows of the files on disk. They are as they were",
    Decision.PARTLY_APPROVED: "The user keeps a part of what proposal {id} shows of the files on disk",
    Decision.DENIED: "The user denied proposal {id}, of changes that were on disk. They were taken off it; "
    "build on the files as they are now",
    Decision.REOPENED: "The user took back the decision on proposal {id}. Its changes are on disk and await the "
    "user's decision again",
}


def _headline(decided: ProposalDecided) -> str:
    if decided.on_disk and (said := _ON_DISK_HEADLINES.get(decided.decision)):
        files = f": {format_files(decided.files)}" if decided.files else ""
        return f"{said.replace('{id}', decided.proposal)}{files}."
    headline = _HEADLINES[decided.decision]
    if decided.decision is Decision.DENIED and decided.hunks:
        headline = _HUNKS_DENIED
    if decided.decision is Decision.REOPENED and decided.hunks:
        headline = _HUNKS_REOPENED
    files = f": {format_files(decided.files)}" if decided.files else ""
    return f"{headline.replace('{id}', decided.proposal)}{files}."


def format_hunks(hunks: Sequence[HunkOutcome], *, on_disk: bool = False) -> list[str]:
    """Return a line for each hunk: whether it was applied, why not, and the present text of the file there.

    `on_disk` is for hunks that were on disk before they were decided on.
    """
    lines: list[str] = []
    for fact in hunks:
        state = "landed" if fact.landed else "did not land"
        if on_disk:
            state = "not on disk any more" if fact.reason == "denied" else "on disk"
        reason = f" ({fact.reason})" if fact.reason else ""
        lines.append(f"- {fact.path} {fact.header}: {state}{reason}")
        if fact.excerpt:
            lines.append(f"  {fact.path} reads there now:")
            lines += [f"    {line}" for line in fact.excerpt.splitlines()]
    return lines


def _comment(comment: LineComment) -> str:
    side = " (before the change)" if comment.side == "old" else ""
    fence = "```"
    while fence in comment.quote:
        fence += "`"
    quote = f"\n{fence}diff\n{comment.quote}\n{fence}" if comment.quote else ""
    return f"{comment.path}:{comment.line}{side}{quote}\n{comment.text}"
