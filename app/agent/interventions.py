"""What the program tells the model, and when: every text of an intervention is written here.

Each is an event of its own, sent as a system message, and stands in payloads only for as long as it applies
(`Intervention.scope`). What a decision of the user tells the model is worded in `app.conversation.decision_words`.
"""

from collections.abc import Iterable, Mapping, Sequence

from app.conversation.events import (
    Decision,
    Event,
    Intervention,
    InterventionKind,
    ProposalDecided,
    ProposalStaged,
    ToolResult,
)
from app.proposals.models import Proposal, ProposalState

DENIALS_BEFORE_ADVICE = 3
"""Denials in a row, with no approval between, after which the model is told to ask instead."""
_FILES_NAMED = 20
"""More files than this are counted, not named."""


def staged(proposals: Sequence[str], paths: Iterable[str]) -> Intervention:
    """The instruction of the closing request: an edit is staged, hand control back.

    Args:
        proposals: ids staged in this turn.
        paths: the files that they change.
    """
    many = len(proposals) > 1
    return _instruction(
        InterventionKind.STAGED,
        f"Your edits are staged as {'proposals' if many else 'proposal'} {', '.join(proposals)} "
        f"({_names(paths)}), awaiting approval by the user. Nothing is written to disk yet. Do not call tools. "
        "Hand control back to the user now: say in a few sentences what the change does and what to look at.",
    )


def closing(kind: InterventionKind, proposals: Sequence[str] = (), paths: Iterable[str] = ()) -> Intervention:
    """The instruction of a closing request, whatever its cause."""
    match kind:
        case InterventionKind.STEP_LIMIT:
            return _instruction(
                kind,
                "The step limit of this turn is reached. Do not call tools. Hand control back to the user: say what "
                "is done, what is left, and how you would go on.",
            )
        case InterventionKind.NO_PROGRESS:
            return _instruction(
                kind,
                "This turn makes no progress: the same calls repeat, or none has any effect. Do not call tools. Hand "
                "control back to the user: say what you tried, what stands in the way, and what you need.",
            )
    return staged(proposals, paths)


def nudge(kind: InterventionKind, *, calls: bool = False) -> Intervention:
    """A word about the last response, for the next request only.

    Args:
        kind: `EMPTY_RESPONSE`, `TRUNCATED` or `NO_PROGRESS`.
        calls: for `TRUNCATED`, whether tool calls were cut off.
    """
    match kind:
        case InterventionKind.EMPTY_RESPONSE:
            text = (
                "Your last response was empty. Go on with the task: call a tool, or answer the user. "
                "If you are done, say so in a sentence."
            )
        case InterventionKind.TRUNCATED if calls:
            text = (
                "Your last response was cut off or malformed, and none of its tool calls ran. Call again with whole "
                "arguments; split a large edit into several smaller calls."
            )
        case InterventionKind.TRUNCATED:
            text = (
                "Your last response was cut off. Go on exactly where it stopped, without repeating what is there, "
                "and keep it short."
            )
        case _:
            text = (
                "You repeat calls that change nothing. The results above are all there is: use them, try another "
                "way, or ask the user."
            )
    return _instruction(kind, text)


def pending(proposals: Iterable[Proposal]) -> Intervention | None:
    """What awaits the user's decision, told when the gate opens again; None if nothing does."""
    lines = [_pending_line(proposal) for proposal in proposals if proposal.state.waiting]
    if not lines:
        return None
    return Intervention(
        kind=InterventionKind.PENDING,
        text=(
            "These proposals still await the user's decision; none of their pending changes is on disk. Reading a "
            "file shows it with them, and later edits of the same files build on them. Do not propose them again.\n"
            + "\n".join(lines)
        ),
        scope="turn",
    )


def planning() -> Intervention:
    """That the model is to plan, for as long as the turn."""
    return Intervention(
        kind=InterventionKind.PLAN,
        text=(
            "Plan mode is on: look, and say what you would do and why; change nothing. Calls of editing tools are "
            "refused. Commands may run, on a copy: what they change is thrown away. The user switches plan mode off."
        ),
        scope="turn",
    )


def repeated_denials(denials_in_row: int, *, asks_by_tool: bool = True) -> Intervention | None:
    """Advice after denials in a row (`PendingProposals.denials_in_row`); None below the threshold.

    `asks_by_tool` says that the model has our tool for questions, which an agent from outside has not.
    """
    if denials_in_row < DENIALS_BEFORE_ADVICE:
        return None
    return Intervention(
        kind=InterventionKind.REPEATED_DENIALS,
        text=(
            f"The user has denied {denials_in_row} proposals in a row. Do not propose another edit yet. Say what you "
            f"understood, and ask the user what the change should be{' (ask_user)' if asks_by_tool else ''}."
        ),
        scope="turn",
    )


def files_changed(seen: Mapping[str, str], current: Mapping[str, str | None]) -> Intervention | None:
    """Which files are no longer as the model read them; None if all are.

    Args:
        seen: path to the version that the model knows (`FilesSeen.versions`).
        current: path to the version a read would show now, None for a file that is gone; paths that are missing
            here count as unchanged.
    """
    changed = {path: current[path] for path in seen if path in current and current[path] != seen[path]}
    if not changed:
        return None
    gone = [path for path, version in changed.items() if version is None]
    edited = [path for path, version in changed.items() if version is not None]
    sentences = ["Files have changed since you read them, and not by you."]
    if edited:
        sentences.append(f"Read again before you rely on them: {_names(edited)}.")
    if gone:
        sentences.append(f"These are gone: {_names(gone)}.")
    return Intervention(
        kind=InterventionKind.FILES_CHANGED,
        text=" ".join(sentences),
        scope="lasting",
        files={path: version or "" for path, version in changed.items()},
    )


def fact(text: str) -> Intervention:
    """Anything else that happened and that the model has to know from now on."""
    return Intervention(kind=InterventionKind.FACT, text=text, scope="lasting")


class FilesSeen:
    """Fold: the versions of files that the model knows of, by reading them or by being told."""

    def __init__(self) -> None:
        self.versions: dict[str, str] = {}
        """Path to version (SHA-256 hex)."""

    def apply(self, event: Event) -> None:
        """Take in the next event."""
        match event:
            case ToolResult():
                self.versions.update(event.reads)
            case Intervention():
                # Told once: from now on this is the version that the model knows of.
                for path, version in event.files.items():
                    if version:
                        self.versions[path] = version
                    else:
                        self.versions.pop(path, None)
            case ProposalStaged():
                self._forget(stat.path for stat in event.files)
            case ProposalDecided() if event.decision is not Decision.DENIED or event.hunks:
                # The decision itself tells the model what has become of these files.
                self._forget(stat.path for stat in event.files)

    def _forget(self, paths: Iterable[str]) -> None:
        for path in paths:
            self.versions.pop(path, None)


def _instruction(kind: InterventionKind, text: str) -> Intervention:
    return Intervention(kind=kind, text=text, scope="request")


def _pending_line(proposal: Proposal) -> str:
    files = ", ".join(f"{file.path} ({file.op}, +{file.added} -{file.removed})" for file in proposal.in_question)
    notes = {
        ProposalState.STALE: " (stale, it cannot be approved as it is)",
        ProposalState.PARTLY_APPROVED: " (partly approved)",
    }
    reason = f" Reason: {proposal.reason}" if proposal.reason else ""
    return f"- {proposal.id}{notes.get(proposal.state, '')}: {proposal.summary or 'no summary'} [{files}]{reason}"


def _names(paths: Iterable[str]) -> str:
    distinct = list(dict.fromkeys(paths))
    if len(distinct) <= _FILES_NAMED:
        return ", ".join(distinct) or "no file"
    return f"{', '.join(distinct[:_FILES_NAMED])} and {len(distinct) - _FILES_NAMED} more files"
